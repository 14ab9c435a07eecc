/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Who runs on this processor, called by whom: at each tick of a perf event, the registers of user code are followed
 * frame by frame, by the tables that the engine made of each binary's .eh_frame.
 *
 * Nothing here trusts a stack: every read may fail, every index is bounded, and whatever cannot be followed ends the
 * stack with a reason. Compiled natively, tests replay it over recorded stacks and hostile tables.
 */
#include "kernel.h"
#include "unwind.h"

struct {
	MAP_NUMBER(type, MAP_ARRAY_OF_MAPS);
	MAP_NUMBER(max_entries, SHARDS_MAX);
	MAP_TYPE(key, u32);
	/* No names in here: of what pointers in pointers point to, the compiler writes only the name. */
	struct {
		MAP_NUMBER(type, MAP_ARRAY);
		MAP_NUMBER(max_entries, NODES_PER_SHARD);
		MAP_TYPE(key, u32);
		/* A struct node. */
		u64 (*value)[NODE_ENTRIES];
	} *values[];
} shards SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, TABLES_MAX);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct table);
} tables SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, BLOCKS_MAX);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct block);
} blocks SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, PROCESSES_MAX);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct process);
} processes SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_RINGBUF);
	MAP_NUMBER(max_entries, 1 << 20);
} samples SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, COUNTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} counts SECTION(".maps");

/* Where the unwinding of one stack is; too large for the stack of a program. */
struct state {
	u64 address;
	u64 stack;
	u64 frame;
	/* When this processor was looked at last. */
	u64 tick_nanos;
	struct process process;
	/* Of the last frame: callers often are in the same one. */
	struct mapping mapping;
	u8 is_exact;
	u8 is_frame_known;
	/* Whether the engine will know more soon. */
	u8 is_early;
	/* The registers that it began with. */
	u64 first_address;
	u64 first_stack;
	u64 first_frame;
	struct sample sample;
};

struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct state);
} states SECTION(".maps");

struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct copy);
} copies SECTION(".maps");

/* Register values of what was interrupted, as struct sigcontext has them: words from rbp. */
#define SIGNAL_STACK_WORDS 5
#define SIGNAL_ADDRESS_WORDS 6
/* From the stack pointer in a signal handler's return to the saved rbp. */
#define SIGNAL_FRAME_WORDS 15
/* mov $15, %rax; syscall, the first eight bytes: how a signal handler returns, with or without unwind information. */
#define SIGNAL_RETURN_CODE 0x0f0000000fc0c748ull

ALWAYS_INLINE void count(u32 which)
{
	u64 *number = map_lookup(&counts, &which);

	if (number)
		*number += 1;
}

ALWAYS_INLINE int is_read(u64 *to, u64 from)
{
	return probe_read_user(to, sizeof *to, (const void *)from) == 0;
}

/* 1 if a is less, else 0, for numbers below 2^63. Not a comparison, which would be a branch: the verifier follows both
 * sides of each, and there are 2^13 ways through a search. */
ALWAYS_INLINE u64 is_less(u64 a, u64 b)
{
	u64 difference = a - b;

	OPAQUE(difference);
	return difference >> 63;
}

ALWAYS_INLINE struct mapping *mapping_at(const struct state *state, u64 place)
{
	u32 number = state->process.first_block + place / BLOCK_MAPPINGS;
	struct block *block = map_lookup(&blocks, &number);

	return block ? &block->mappings[place % BLOCK_MAPPINGS] : 0;
}

/* Makes the mapping that has the address the current one. */
ALWAYS_INLINE int is_mapped(struct state *state, u64 address)
{
	struct mapping *mapping;
	u64 count = state->process.mappings, at = 0;

	if (address - state->mapping.start < state->mapping.end - state->mapping.start)
		return 1;
	if (address >> 63 || !count)
		return 0;
	/* The last one that begins at the address or below. */
#pragma unroll
	for (int i = MAPPING_STEPS - 1; i >= 0; i--) {
		u64 is_there, next;

		if ((1ull << i) >= count)
			continue;
		is_there = is_less(at + (1ull << i), count);
		next = at + (is_there << i);
		mapping = mapping_at(state, next);
		if (!mapping)
			return 0;
		at += (is_there & is_less(mapping->start, address + 1)) << i;
	}
	mapping = mapping_at(state, at);
	if (!mapping || address < mapping->start || address >= mapping->end)
		return 0;
	state->mapping = *mapping;
	return 1;
}

ALWAYS_INLINE struct node *node_at(u32 number)
{
	u32 shard_number = number / NODES_PER_SHARD;
	u32 within = number % NODES_PER_SHARD;
	void *shard = map_lookup(&shards, &shard_number);

	return shard ? map_lookup(shard, &within) : 0;
}

/* The last entry whose key is not above; the first one, if all are. */
ALWAYS_INLINE struct entry last_not_above(const struct node *node, u32 key)
{
	u64 at = 0;

#pragma unroll
	for (int i = NODE_STEPS - 1; i >= 0; i--) {
		u64 next = (at + (1 << i)) & (NODE_ENTRIES - 1);

		at += is_less(node->entries[next].key, (u64)key + 1) << i;
	}
	return node->entries[at & (NODE_ENTRIES - 1)];
}

ALWAYS_INLINE u32 rule_at(const struct table *table, u64 relative)
{
	u32 number = table->root;

	if (relative >= 0xffffffff)
		return RULE_GAP;
	for (int level = 1; level <= LEVELS_MAX; level++) {
		struct node *node = node_at(number);
		struct entry entry;

		if (!node)
			return RULE_GAP;
		entry = last_not_above(node, (u32)relative);
		if (level >= table->levels)
			return entry.key <= relative ? entry.value : RULE_GAP;
		number = entry.value;
	}
	return RULE_GAP;
}

/* What a signal interrupted: the kernel saved all of its registers. */
ALWAYS_INLINE int from_signal_frame(struct state *state, u64 saved)
{
	u64 frame, stack, address;

	if (!is_read(&frame, saved) || !is_read(&stack, saved + SIGNAL_STACK_WORDS * 8) ||
	    !is_read(&address, saved + SIGNAL_ADDRESS_WORDS * 8))
		return STOP_READ_FAULT;
	state->frame = frame;
	state->stack = stack;
	state->address = address;
	state->is_exact = 1;
	state->is_frame_known = 1;
	return STOP_NONE;
}

/* Whether an instruction is one at which its function has no frame yet, or no more. */
ALWAYS_INLINE int is_without_frame(u64 code)
{
	/* push %rbp; endbr64, push %rbp; ret */
	return (code & 0xff) == 0x55 || (code & 0xffffffffffull) == 0x55fa1e0ff3ull || (code & 0xff) == 0xc3;
}

ALWAYS_INLINE int by_frame_pointer(struct state *state, int otherwise)
{
	u64 address, frame, code = 0, slot = state->frame;
	int is_code = is_read(&code, state->address);

	if (is_code && code == SIGNAL_RETURN_CODE)
		return from_signal_frame(state, state->stack + SIGNAL_FRAME_WORDS * 8);
	if (state->is_exact && is_code && is_without_frame(code)) {
		if (!is_read(&address, state->stack))
			return STOP_READ_FAULT;
		if (!is_mapped(state, address - 1))
			return otherwise;
		state->stack += 8;
		state->address = address;
		state->is_exact = 0;
		return STOP_NONE;
	}
	/* mov %rsp, %rbp: the old one was just pushed. */
	if (state->is_exact && is_code && (code & 0xffffff) == 0xe58948)
		slot = state->stack;
	else if (!state->is_frame_known)
		return otherwise;
	else if (!slot)
		return state->is_exact ? otherwise : STOP_ROOT;
	if (slot < state->stack || (slot & 7))
		return otherwise;
	if (!is_read(&frame, slot) || !is_read(&address, slot + 8))
		return STOP_READ_FAULT;
	if (!address)
		return frame ? otherwise : STOP_ROOT;
	if (!is_mapped(state, address - 1))
		return otherwise;
	state->frame = frame;
	state->is_frame_known = 1;
	state->stack = slot + 16;
	state->address = address;
	state->is_exact = 0;
	return STOP_NONE;
}

/* The frame's base: what the stack pointer is in the caller. Zero if it cannot be read. */
ALWAYS_INLINE u64 base_by(const struct state *state, u32 word)
{
	u64 base, slot;

	switch (RULE_KIND(word)) {
	case RULE_STACK_POINTER:
		return state->stack + (s64)RULE_WORDS(word) * 8;
	case RULE_FRAME_POINTER:
		return state->frame + (s64)RULE_WORDS(word) * 8;
	case RULE_PLT:
		return state->stack + ((state->address & 15) >= RULE_SLOT(word) ? 16 : 8);
	case RULE_STACK_SLOT:
		slot = state->stack + (u64)RULE_SLOT(word) * 8;
		break;
	default:
		slot = state->frame + (s64)(s16)RULE_SLOT(word) * 8;
		break;
	}
	return is_read(&base, slot) ? base + (u64)RULE_ADD(word) * 8 : 0;
}

ALWAYS_INLINE int is_slot(u32 word)
{
	return RULE_KIND(word) == RULE_STACK_SLOT || RULE_KIND(word) == RULE_FRAME_SLOT;
}

ALWAYS_INLINE int by_rule(struct state *state, u32 word)
{
	u32 kind = RULE_KIND(word);
	s32 rbp = RULE_RBP(word);
	u64 base, address, slot, frame;

	if (kind == RULE_END)
		return STOP_ROOT;
	if (kind == RULE_SIGNAL_FRAME)
		return from_signal_frame(state, state->stack + (u64)RULE_SLOT(word) * 8);
	if (kind > RULE_FRAME_SLOT)
		return STOP_UNSUPPORTED_RULE;
	if (!state->is_frame_known && (kind == RULE_FRAME_POINTER || kind == RULE_FRAME_SLOT))
		return STOP_UNSUPPORTED_RULE;
	base = base_by(state, word);
	/* Stacks grow down: only where it was switched can a caller's be below. */
	if (!base || (base <= state->stack && !is_slot(word)))
		return STOP_READ_FAULT;
	if (!is_read(&address, base - 8))
		return STOP_READ_FAULT;
	if (rbp > RBP_AT_RBP) {
		state->is_frame_known = 0;
	} else if (rbp < RBP_KEPT || (rbp == RBP_AT_RBP && state->is_frame_known)) {
		slot = rbp == RBP_AT_RBP ? state->frame : base + (s64)rbp * 8;
		/* After pop %rbp compilers leave the rule that it was saved; its slot is gone, and it is back. */
		if (slot >= state->stack || is_slot(word)) {
			if (!is_read(&frame, slot))
				return STOP_READ_FAULT;
			state->is_frame_known = 1;
			state->frame = frame;
		}
	}
	state->stack = base;
	state->address = address;
	state->is_exact = 0;
	/* The ABI's mark of the outermost frame: no caller, and no frame pointer. */
	if (!address)
		return state->is_frame_known && !state->frame ? STOP_ROOT : STOP_NO_MAPPING;
	return STOP_NONE;
}

/* From the current frame to its caller, or why there is no way. */
ALWAYS_INLINE int to_caller(struct state *state)
{
	u64 at = state->is_exact ? state->address : state->address - 1;
	struct table *table;
	u32 word = RULE_GAP;
	int otherwise = STOP_NO_UNWIND_INFO;

	if (!is_mapped(state, at)) {
		state->is_early = 1;
		return STOP_NO_MAPPING;
	}
	table = map_lookup(&tables, &state->mapping.table);
	if (!table || table->state == TABLE_ABSENT) {
		state->is_early = state->mapping.table != TABLE_UNKNOWN;
		return STOP_NO_UNWIND_INFO;
	}
	if (table->state == TABLE_ROWS) {
		word = rule_at(table, at - state->mapping.origin);
		if (RULE_KIND(word) != RULE_GAP)
			return by_rule(state, word);
		if (!table->frame_pointers_in_gaps) {
			u64 code;

			if (is_read(&code, state->address) && code == SIGNAL_RETURN_CODE)
				return from_signal_frame(state, state->stack + SIGNAL_FRAME_WORDS * 8);
			/* Where threads begin there is no caller, whether or not that is written down. */
			if (!state->is_exact && state->is_frame_known && !state->frame)
				return STOP_ROOT;
			return STOP_NO_UNWIND_INFO;
		}
	}
	if (table->state == TABLE_JIT)
		otherwise = STOP_JIT;
	return by_frame_pointer(state, otherwise);
}

static long step(u32 index, struct state **context)
{
	struct state *state = *context;
	struct sample *sample = &state->sample;
	u32 place = (u32)sample->kernel_frames + sample->user_frames;
	int stop;

	(void)index;
	if (sample->user_frames >= USER_FRAMES_MAX) {
		sample->stop = STOP_DEPTH;
		return 1;
	}
	/* No address of user code: nothing that could be a frame. */
	if (state->address & EXACT) {
		sample->stop = STOP_NO_MAPPING;
		return 1;
	}
	OPAQUE(place);
	sample->addresses[place & (ADDRESSES_MAX - 1)] = state->address | (state->is_exact ? EXACT : 0);
	sample->user_frames++;
	stop = to_caller(state);
	if (stop == STOP_NONE)
		return 0;
	sample->stop = stop;
	return 1;
}

/* The registers that user code has, or had when it entered the kernel; whether there is any. */
ALWAYS_INLINE int is_user(struct perf_event_context *context, struct state *state, u64 *segment)
{
	/* Volatile, so that each is one read of the context: the verifier wants no pointers into it. */
	const volatile struct registers *registers = &context->registers;
	u64 cs = registers->cs, rip = registers->rip, rsp = registers->rsp, rbp = registers->rbp;
	struct sample *sample = &state->sample;
	struct registers saved;
	long bytes;

	if ((cs & 3) == 3) {
		state->address = rip;
		state->stack = rsp;
		state->frame = rbp;
		*segment = cs;
		return 1;
	}
	bytes = kernel_stack(context, sample->addresses, KERNEL_FRAMES_MAX * 8, 0);
	if (bytes > 0)
		sample->kernel_frames = (bytes / 8) & 127;
	if (probe_read_kernel(&saved, sizeof saved, (const void *)task_registers(current_task())))
		return 0;
	/* A thread of the kernel has none, and one that works for a process (io_uring) has no address. */
	if ((saved.cs & 3) != 3 || !saved.rip)
		return 0;
	state->address = saved.rip;
	state->stack = saved.rsp;
	state->frame = saved.rbp;
	*segment = saved.cs;
	return 1;
}

/* The code segment of 32-bit programs: GDT_ENTRY_DEFAULT_USER32_CS. */
#define SEGMENT_OF_32_BITS 0x23

ALWAYS_INLINE void unwind(struct state *state, u64 segment)
{
	struct sample *sample = &state->sample;
	struct process *process = map_lookup(&processes, &sample->process);

	state->is_exact = 1;
	state->is_frame_known = 1;
	state->mapping.start = 0;
	state->mapping.end = 0;
	if (!process || segment == SEGMENT_OF_32_BITS) {
		u32 place = sample->kernel_frames;

		sample->addresses[place & (ADDRESSES_MAX - 1)] = state->address | EXACT;
		sample->user_frames = 1;
		sample->stop = process ? STOP_UNSUPPORTED_RULE : STOP_NO_MAPPING;
		state->is_early = segment != SEGMENT_OF_32_BITS;
		return;
	}
	state->process = *process;
	repeat(USER_FRAMES_MAX + 1, step, &state, 0);
}

/* Puts the stack's first pages into the ring; whether that could be done. */
ALWAYS_INLINE int is_copied(struct state *state)
{
	u32 zero = 0;
	struct copy *copy = map_lookup(&copies, &zero);
	u64 from = state->first_stack, bytes = PAGE_BYTES - (from & (PAGE_BYTES - 1));

	if (!copy)
		return 0;
	copy->time_nanos = state->sample.time_nanos;
	copy->processor = state->sample.processor;
	copy->kind = SAMPLE_COPY;
	copy->is_cut = 0;
	copy->address = state->first_address;
	copy->stack_pointer = from;
	copy->frame = state->first_frame;
	/* The page of the stack pointer to its end, then whole ones: the stack ends with a page. */
	if (probe_read_user(copy->stack, bytes, (const void *)from))
		return 0;
	for (int i = 0; i < COPY_PAGES; i++) {
		if (bytes > PAGE_BYTES * COPY_PAGES ||
		    probe_read_user(copy->stack + bytes, PAGE_BYTES, (const void *)(from + bytes)))
			break;
		bytes += PAGE_BYTES;
		copy->is_cut = i == COPY_PAGES - 1;
	}
	if (bytes > sizeof copy->stack)
		return 0;
	return !ring_output(&samples, copy, __builtin_offsetof(struct copy, stack) + bytes, RING_NO_WAKEUP);
}

SECTION("perf_event")
int sample_processor(struct perf_event_context *context)
{
	u64 now = now_nanos(), who = process_and_thread(), segment = 0;
	u32 zero = 0, addresses;
	struct state *state = map_lookup(&states, &zero);
	struct sample *sample;

	if (!state)
		return 0;
	sample = &state->sample;
	sample->time_nanos = now;
	sample->period_nanos = state->tick_nanos ? now - state->tick_nanos : 0;
	state->tick_nanos = now;
	count(COUNT_TICKS);
	/* An idle processor. */
	if (!who)
		return 0;
	sample->process = who >> 32;
	sample->thread = (u32)who;
	sample->processor = processor_number();
	sample->kernel_frames = 0;
	sample->user_frames = 0;
	sample->stop = STOP_NO_USER_STACK;
	sample->kind = SAMPLE_WHOLE;
	state->is_early = 0;
	if (is_user(context, state, &segment)) {
		state->first_address = state->address;
		state->first_stack = state->stack;
		state->first_frame = state->frame;
		unwind(state, segment);
	}
	if (state->is_early && is_copied(state))
		sample->kind = SAMPLE_COPIED;
	addresses = (u32)sample->kernel_frames + sample->user_frames;
	if (addresses > ADDRESSES_MAX)
		addresses = ADDRESSES_MAX;
	if (ring_output(&samples, sample, __builtin_offsetof(struct sample, addresses) + addresses * 8, RING_NO_WAKEUP))
		count(COUNT_LOST);
	return 0;
}

/* Some of the helper functions are for programs under the GPL only. */
char terms[] SECTION("license") = "Dual MIT/GPL";
