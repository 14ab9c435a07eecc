#!/bin/sh
# Stands in for the converter in tests.
echo '{"failed":{"kind":"unsupported","detail":"this machine is not supported"}}'
