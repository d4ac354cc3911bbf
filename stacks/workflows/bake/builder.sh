#!/bin/sh
# User data of a builder. No agent of the yard watches a base image: this ends the builder with its lease, whatever
# becomes of those who would end it. Shutting down terminates it (the launch template says so).
set -eu
ask() { python3 -c 'import sys, urllib.request as http
print(http.urlopen(http.Request(sys.argv[1], method=sys.argv[2], headers=dict([sys.argv[3:5]])), timeout=10).read().decode())' "$@"; }
at=http://169.254.169.254/latest
token=$(ask "$at/api/token" PUT X-aws-ec2-metadata-token-ttl-seconds 60)
lease=$(ask "$at/meta-data/tags/instance/trainyard:lease" GET X-aws-ec2-metadata-token "$token")
shutdown -P "+$((($(date -d "$lease" +%s) - $(date +%s)) / 60 + 1))"
