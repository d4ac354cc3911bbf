#!/bin/sh
# Wait at most 30 s until the metadata service has this host's credentials.
imds=http://169.254.169.254/latest
role=meta-data/iam/security-credentials/
for _ in $(seq 60); do
    token=$(curl -sf -m 2 -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' "$imds/api/token")
    name=$(curl -sf -m 2 -H "X-aws-ec2-metadata-token: $token" "$imds/$role")
    if [ -n "$name" ] && curl -sf -m 2 -H "X-aws-ec2-metadata-token: $token" "$imds/$role$name" | grep -q AccessKeyId; then
        exit 0
    fi
    sleep 0.5
done
echo "no credentials within 30 s: an instance without a role has none" >&2
exit 1
