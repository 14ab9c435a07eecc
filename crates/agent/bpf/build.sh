#!/bin/sh
# Compiles the unwinder: bpf/build.sh [OUTPUT]. The object is checked in, so that building the agent needs no clang; a test compares.
# Debian 12: clang-19 and llvm-19. Type information (BTF) stays, the kernel asks for it; DWARF goes.
set -eu
cd "$(dirname "$0")"
output=${1:-unwind.x86_64.o}
clang-19 -O2 -g -target bpf -mcpu=v3 -Wall -Wextra -Werror -fno-ident -ffile-prefix-map="$PWD"=. \
    -fdebug-compilation-dir=. -c unwind.bpf.c -o "$output"
llvm-strip-19 --strip-debug "$output"
