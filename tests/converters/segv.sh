#!/bin/sh
# Stands in for the converter in tests.
ulimit -c 0
kill -s SEGV $$
