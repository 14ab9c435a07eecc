/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the unwinder and the engine that feeds it agree on: engine/ebpf/layout.rs and table/rule.rs have the same, and a
 * test compares the sizes.
 */
#ifndef UNHEX_UNWIND_H
#define UNHEX_UNWIND_H

/* Frames of a sample. Of 512, the deepest stacks of compilers and virtual machines were 128. */
#define USER_FRAMES_MAX 512
#define KERNEL_FRAMES_MAX 127
/* A power of two, so that an index is bounded by its bits. */
#define ADDRESSES_MAX 1024

/* A table is a tree of nodes of 4 KiB: one look-up of a map is nine steps of a search. */
#define NODE_ENTRIES 512
#define NODE_STEPS 9
#define NODES_PER_SHARD 512
#define SHARDS_MAX 256
/* 512 * 512 * 512 rows. */
#define LEVELS_MAX 3

/* Executable mappings of a process that are looked at: 2^12. */
#define MAPPING_STEPS 12
/* Mappings come in blocks, so that those of most processes are written by two system calls. */
#define BLOCK_MAPPINGS 8
#define BLOCKS_MAX 32768
#define PROCESSES_MAX 16384
#define TABLES_MAX 16384

/* A rule, in 32 bits: kind, then where rbp is, then an offset in words of 8 bytes. */
#define RULE_KIND(word) ((word) & 15)
#define RULE_RBP(word) ((s32)((word) << 20) >> 24)
#define RULE_WORDS(word) ((s32)(word) >> 12)
#define RULE_SLOT(word) (((word) >> 12) & 0xffff)
#define RULE_ADD(word) ((word) >> 28)

enum rule_kind {
	RULE_GAP,
	RULE_STACK_POINTER,
	RULE_FRAME_POINTER,
	RULE_PLT,
	RULE_STACK_SLOT,
	RULE_FRAME_SLOT,
	RULE_SIGNAL_FRAME,
	RULE_END,
	RULE_UNSUPPORTED,
};

enum rule_rbp {
	RBP_KEPT = 0,
	RBP_AT_RBP = 1,
	/* Below 0: in the word so many words from the frame's base. Above 1: unknown. */
};

/* Why a stack ends; the order of Stop::ALL in sample.rs. */
enum stop {
	STOP_ROOT,
	STOP_NO_USER_STACK,
	STOP_NO_MAPPING,
	STOP_NO_UNWIND_INFO,
	STOP_UNSUPPORTED_RULE,
	STOP_READ_FAULT,
	STOP_JIT,
	STOP_TRUNCATED,
	STOP_DEPTH,
	STOP_NONE,
};

/* From a key on: a rule, or in inner nodes the number of another node. Unused entries have the highest key. */
struct entry {
	u32 key;
	u32 value;
};

struct node {
	struct entry entries[NODE_ENTRIES];
};

enum table_state {
	/* Not here, or not yet: nothing is guessed. */
	TABLE_ABSENT,
	TABLE_ROWS,
	/* None, and none to be had: frame pointers are all there is. */
	TABLE_FRAME_POINTERS,
	/* Code that was made while the process ran. */
	TABLE_JIT,
};

/* The table of binaries that nothing is known of, and nothing will be. */
#define TABLE_UNKNOWN 0

struct table {
	u32 root;
	u8 state;
	u8 levels;
	/* Whether gaps between rows are code with frame pointers: Go's, or a file that is nearly all gaps. */
	u8 frame_pointers_in_gaps;
	u8 unused;
};

struct mapping {
	u64 start;
	u64 end;
	/* The address that keys of the table count from; wraps around. */
	u64 origin;
	u32 table;
	u32 unused;
};

struct block {
	struct mapping mappings[BLOCK_MAPPINGS];
};

/* Mappings by address, in blocks that follow each other. */
struct process {
	u32 first_block;
	u32 mappings;
};

/* The highest bit of a user address: that instruction ran or was interrupted, instead of having called. */
#define EXACT (1ull << 63)

/* What comes out of the ring, as long as its addresses are many: kernel frames, then user frames. */
struct sample {
	u64 time_nanos;
	/* Since the processor was looked at before; 0 if it never was. */
	u64 period_nanos;
	u32 process;
	u32 thread;
	u32 processor;
	u16 kernel_frames;
	u16 user_frames;
	u8 stop;
	u8 kind;
	u8 unused[6];
	u64 addresses[ADDRESSES_MAX];
};

enum sample_kind {
	SAMPLE_WHOLE,
	/* A struct copy of the same processor and time came out of the ring before it. */
	SAMPLE_COPIED,
	/* A struct copy. */
	SAMPLE_COPY,
};

/* Of a stack that met what the engine has not told of yet, as it does on its next poll: then it unwinds the copy. */
#define PAGE_BYTES 4096
#define COPY_PAGES 4

struct copy {
	/* As struct sample has them; only time, processor and kind count. */
	u64 time_nanos;
	u64 period_nanos;
	u32 process;
	u32 thread;
	u32 processor;
	u16 kernel_frames;
	u16 user_frames;
	u8 stop;
	u8 kind;
	/* Whether there may be more of the stack. */
	u8 is_cut;
	u8 unused[5];
	u64 address;
	u64 stack_pointer;
	u64 frame;
	/* As long as could be read. */
	u8 stack[PAGE_BYTES * (COPY_PAGES + 1)];
};

enum count {
	/* Samples that the ring had no room for. */
	COUNT_LOST,
	/* Looks at a processor, idle ones too. */
	COUNT_TICKS,
	COUNTS,
};

#endif
