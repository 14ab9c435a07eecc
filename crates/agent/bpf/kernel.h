/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What of the kernel's interface the unwinder uses, so that neither libbpf nor the kernel's own headers are needed to
 * compile it: fixed-size integers, map definitions as loaders read them, helper functions by their numbers, and the
 * registers of x86-64 as uapi/asm/ptrace.h has them.
 */
#ifndef UNHEX_KERNEL_H
#define UNHEX_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Loaders read maps from type information: numbers are lengths of arrays that are pointed to. */
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) type *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERCPU_ARRAY = 6,
	MAP_ARRAY_OF_MAPS = 12,
	MAP_RINGBUF = 27,
};

/* BPF_RB_NO_WAKEUP: nobody waits for the ring, it is read at intervals. */
#define RING_NO_WAKEUP 1

static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now_nanos)(void) = (void *)5;
static u32 (*const processor_number)(void) = (void *)8;
static u64 (*const process_and_thread)(void) = (void *)14;
static long (*const kernel_stack)(void *context, void *to, u32 bytes, u64 flags) = (void *)67;
static long (*const probe_read_user)(void *to, u32 bytes, const void *from) = (void *)112;
static long (*const probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static long (*const ring_output)(void *ring, void *data, u64 bytes, u64 flags) = (void *)130;
static void *(*const current_task)(void) = (void *)158;
static long (*const task_registers)(void *task) = (void *)175;
static long (*const repeat)(u32 times, void *step, void *context, u64 flags) = (void *)181;

struct registers {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	u64 rax, rcx, rdx, rsi, rdi, orig_rax;
	u64 rip, cs, eflags, rsp, ss;
};

/* struct bpf_perf_event_data: what a program at a perf event is given. */
struct perf_event_context {
	struct registers registers;
	u64 sample_period, address;
};

/* Keeps the compiler from turning arithmetic into branches, each of which the verifier would follow on its own. */
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))

#endif
