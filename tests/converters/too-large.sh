#!/bin/sh
# Stands in for the converter in tests.
echo '{"failed":{"kind":"too_large","detail":"it has 5 units, more than 4"}}'
