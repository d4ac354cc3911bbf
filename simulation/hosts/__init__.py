"""Simulated hosts: actors that speak the contract of docs/contracts as the real agent does, under virtual time.

Read in this order: machines (what EC2 and Systems Manager call), machine, agent and its attempt, gang (the programs),
then surroundings (what a host is given) and faults. What can be judged by a pure function of the real agent is: leases,
when to leave, what an end means, what a signal says, which checkpoint counts. `agent.words` names for each word who
says it.
"""
