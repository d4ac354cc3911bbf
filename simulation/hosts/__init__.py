"""Simulated hosts: they follow the contract of docs/contracts as the real agent does, in virtual time.

Read in this order: machines (called by EC2 and Systems Manager), machine, agent and attempt, gang (the
programs), environment (what a host is given), faults. Pure functions of the real agent decide: leases, when to
leave, the meaning of an exit code, the content of signals, which checkpoint counts. `agent.contract` names the
real function behind each signal.
"""
