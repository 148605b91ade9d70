#!/bin/sh
# Asks a service one question with curl: sh ask.sh http://127.0.0.1:8750 TOKEN
# Needs curl and python3 (for one field of JSON). The certificate is written beside the answer.
set -eu
address=$1 token=$2 dataset="people%202026"

call() { curl --silent --show-error --fail-with-body --header "Authorization: Bearer $token" "$@"; }
field() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }

question='{"question": "mean", "columns": ["income"], "where": "age >= 20", "eps": "0.1"}'
call --json "{\"question\": $question}" "$address/v1/datasets/$dataset/forecast" | field forecast
job=$(call --json "$question" --header "Idempotency-Key: $(date +%s)-$$" "$address/v1/datasets/$dataset/questions" | field id)
while [ "$(call "$address/v1/questions/$job" | field state)" = pending ]; do sleep 1; done
call "$address/v1/questions/$job/release?format=csv" --output answer.csv
call "$address/v1/questions/$job/certificate?file=answer.csv" --output answer.csv.certificate.json
cat answer.csv
