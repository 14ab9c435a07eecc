#!/bin/sh
# Stands in for the converter in tests.
exec sleep 600
