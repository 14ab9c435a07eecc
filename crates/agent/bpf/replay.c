/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The unwinder as a usual program, for tests: replays a snapshot of a process, or runs over hostile tables and stacks.
 *
 *   replay layout            prints what engine/ebpf has to agree on
 *   replay stack FILE        prints why the stack of a snapshot ends, and its addresses
 *   replay hostile SEED N    unwinds N made-up stacks by made-up tables
 *
 * Every value of a map is memory of its own, so that a sanitizer sees a read beyond it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instead of kernel.h. */
#define UNHEX_KERNEL_H
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef short s16;
typedef int s32;
typedef long long s64;
#define SECTION(name)
#define ALWAYS_INLINE static inline
#define MAP_NUMBER(name, value) int (*name)[value]
#define MAP_TYPE(name, type) type *name
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))
#define RING_NO_WAKEUP 1
enum { MAP_HASH, MAP_ARRAY, MAP_PERCPU_ARRAY, MAP_ARRAY_OF_MAPS, MAP_RINGBUF };
struct registers {
	u64 r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8;
	u64 rax, rcx, rdx, rsi, rdi, orig_rax;
	u64 rip, cs, eflags, rsp, ss;
};
struct perf_event_context {
	struct registers registers;
	u64 sample_period, address;
};
static void *map_lookup(void *map, const void *key);
static u64 now_nanos(void) { return 7; }
static u32 processor_number(void) { return 0; }
static u64 process_and_thread(void) { return 1ull << 32 | 1; }
static long kernel_stack(void *context, void *to, u32 bytes, u64 flags);
static long probe_read_user(void *to, u32 bytes, const void *from);
static long probe_read_kernel(void *to, u32 bytes, const void *from);
static long ring_output(void *ring, void *data, u64 bytes, u64 flags);
static void *current_task(void) { return 0; }
static long task_registers(void *task) { return (long)task; }
static long repeat(u32 times, void *step, void *context, u64 flags);

#include "unwind.bpf.c"

struct memory {
	u64 start, bytes;
	u8 *content;
};

/* What the maps have. */
static struct node *node[NODES_PER_SHARD * 4];
static struct table *table[TABLES_MAX];
static struct block *block[BLOCKS_MAX];
static struct process process;
static struct memory *memory;
static u64 memories;
static struct registers kernel_registers;
static struct state *state;
static u64 *counter[COUNTS];
static struct sample *result;
static struct copy *copied;
static struct copy *copy_room;
/* Makes up what memory has, instead of a snapshot. */
static u64 seed;

static u64 random_number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void *allocated(u64 bytes)
{
	void *room = calloc(1, bytes ? bytes : 1);

	if (!room)
		abort();
	return room;
}

/* The address of a shard's entry in this stands for the shard. */
static u8 shard_mark[SHARDS_MAX];

static void *map_lookup(void *map, const void *key)
{
	u32 place = *(const u32 *)key;
	u8 *mark = map;

	if (mark >= shard_mark && mark < shard_mark + SHARDS_MAX) {
		u64 number = (u64)(mark - shard_mark) * NODES_PER_SHARD + place;

		return place < NODES_PER_SHARD && number < sizeof node / sizeof *node ? node[number] : 0;
	}
	if (map == &shards)
		return place < SHARDS_MAX ? &shard_mark[place] : 0;
	if (map == &tables)
		return place < TABLES_MAX ? table[place] : 0;
	if (map == &blocks)
		return place < BLOCKS_MAX ? block[place] : 0;
	if (map == &processes)
		return place == 1 ? &process : 0;
	if (map == &states)
		return place == 0 ? state : 0;
	if (map == &copies)
		return place == 0 ? copy_room : 0;
	if (map == &counts)
		return place < COUNTS ? counter[place] : 0;
	abort();
}

static long kernel_stack(void *context, void *to, u32 bytes, u64 flags)
{
	(void)context, (void)flags;
	memset(to, 0x80, bytes);
	return bytes;
}

static long probe_read_user(void *to, u32 bytes, const void *from)
{
	u64 address = (u64)from;

	if (seed) {
		u64 made_up = random_number();

		if (bytes > 8) {
			memset(to, (int)made_up, bytes);
			return made_up % 3 ? 0 : -14;
		}

		/* Now and then something is not there; mostly, words are addresses of the made-up mappings or stack. */
		if (made_up % 61 == 0)
			return -14;
		if (made_up % 8 == 1)
			made_up = address + made_up % 4096;
		else if (made_up % 8 > 2)
			made_up = 0x10000 + made_up % 0x100000;
		memcpy(to, &made_up, bytes);
		return 0;
	}
	for (u64 i = 0; i < memories; i++) {
		u64 within = address - memory[i].start;

		if (address >= memory[i].start && within < memory[i].bytes && bytes <= memory[i].bytes - within) {
			memcpy(to, memory[i].content + within, bytes);
			return 0;
		}
	}
	return -14;
}

static long probe_read_kernel(void *to, u32 bytes, const void *from)
{
	(void)from;
	memcpy(to, &kernel_registers, bytes);
	return 0;
}

static long ring_output(void *ring, void *data, u64 bytes, u64 flags)
{
	u8 *record = allocated(bytes);

	(void)ring, (void)flags;
	memcpy(record, data, bytes);
	if (((struct sample *)record)->kind == SAMPLE_COPY) {
		free(copied);
		copied = (struct copy *)record;
	} else {
		free(result);
		result = (struct sample *)record;
	}
	return 0;
}

static long repeat(u32 times, void *step, void *context, u64 flags)
{
	long (*stepped)(u32, struct state **) = (long (*)(u32, struct state **))step;

	(void)flags;
	for (u32 i = 0; i < times; i++)
		if (stepped(i, context))
			return i + 1;
	return times;
}

static void prepare(void)
{
	state = allocated(sizeof *state);
	copy_room = allocated(sizeof *copy_room);
	for (int i = 0; i < COUNTS; i++)
		counter[i] = allocated(sizeof **counter);
}

static FILE *input;

static u64 number(void)
{
	u64 value;

	if (fread(&value, sizeof value, 1, input) != 1)
		abort();
	return value;
}

static void *content(u64 bytes)
{
	void *room = allocated(bytes);

	if (bytes && fread(room, bytes, 1, input) != 1)
		abort();
	return room;
}

/* All counts and numbers are of 64 bits: registers, pieces of memory, nodes, tables, blocks. */
static int replay_stack(const char *path)
{
	struct perf_event_context context = { 0 };
	u64 count;

	input = fopen(path, "rb");
	if (!input)
		abort();
	context.registers.rip = number();
	context.registers.rsp = number();
	context.registers.rbp = number();
	context.registers.cs = number();
	kernel_registers = context.registers;
	/* The sample may have hit the kernel: then the registers are those that were saved. */
	if (number())
		context.registers.cs = 0x10;
	memories = number();
	memory = allocated(memories * sizeof *memory);
	for (u64 i = 0; i < memories; i++) {
		memory[i].start = number();
		memory[i].bytes = number();
		memory[i].content = content(memory[i].bytes);
	}
	count = number();
	for (u64 i = 0; i < count; i++)
		node[i] = content(sizeof **node);
	count = number();
	for (u64 i = 0; i < count; i++)
		table[i] = content(sizeof **table);
	process.mappings = (u32)number();
	count = number();
	for (u64 i = 0; i < count; i++)
		block[i] = content(sizeof **block);
	fclose(input);
	prepare();
	sample_processor(&context);
	printf("%u %u %u %u\n", result->stop, result->kernel_frames, result->user_frames, result->kind);
	for (u32 i = 0; i < result->user_frames; i++)
		printf("%llx\n", result->addresses[result->kernel_frames + i]);
	return 0;
}

static void make_up(void *to, u64 bytes)
{
	u8 *room = to;

	for (u64 i = 0; i < bytes; i += 8) {
		u64 value = random_number();

		memcpy(room + i, &value, bytes - i < 8 ? bytes - i : 8);
	}
}

static void make_up_maps(void)
{
	for (u32 i = 0; i < 8; i++) {
		make_up(node[i], sizeof **node);
		/* Half of them are searchable, with rules of all kinds, and children that may be anywhere. */
		for (u32 k = 0; i % 2 == 0 && k < NODE_ENTRIES; k++) {
			node[i]->entries[k].key = k * 0x400;
			node[i]->entries[k].value &= random_number() % 2 ? 0x3fff : 0xffffffff;
		}
	}
	for (u32 i = 0; i < 8; i++) {
		make_up(table[i], sizeof **table);
		table[i]->state %= 5;
		table[i]->root %= 10;
		table[i]->levels %= 5;
	}
	for (u32 i = 0; i < 4; i++) {
		make_up(block[i], sizeof **block);
		/* Most are in order. */
		if (random_number() % 16 == 0)
			continue;
		for (u32 k = 0; k < BLOCK_MAPPINGS; k++) {
			struct mapping *mapping = &block[i]->mappings[k];

			mapping->start = 0x10000 + (i * BLOCK_MAPPINGS + k) * 0x8000ull;
			mapping->end = mapping->start + 0x8000;
			mapping->origin = random_number() % 4 ? 0x10000 : random_number();
			mapping->table %= 10;
		}
	}
	process.first_block = random_number() % 8 ? 0 : (u32)random_number();
	process.mappings = random_number() % 8 ? 32 : (u32)random_number();
}

static int replay_hostile(u64 first_seed, u64 times)
{
	u64 stops[STOP_NONE] = { 0 };

	seed = first_seed | 1;
	prepare();
	for (u32 i = 0; i < 8; i++) {
		node[i] = allocated(sizeof **node);
		table[i] = allocated(sizeof **table);
	}
	for (u32 i = 0; i < 4; i++)
		block[i] = allocated(sizeof **block);
	for (u64 i = 0; i < times; i++) {
		struct perf_event_context context = { 0 };

		if (i % 16 == 0)
			make_up_maps();
		context.registers.rip = random_number() % 16 ? 0x10000 + random_number() % 0x100000 : random_number();
		context.registers.rsp = random_number() >> (random_number() % 2 ? 17 : 0);
		context.registers.rbp = context.registers.rsp + random_number() % 4096 * 8;
		context.registers.cs = random_number() % 16 ? 0x33 : random_number();
		kernel_registers = context.registers;
		kernel_registers.cs = 0x33;
		sample_processor(&context);
		if (!result || result->stop >= STOP_NONE || result->user_frames > USER_FRAMES_MAX ||
		    result->kernel_frames > KERNEL_FRAMES_MAX)
			abort();
		stops[result->stop]++;
	}
	for (int i = 0; i < STOP_NONE; i++)
		printf("%llu\n", stops[i]);
	return 0;
}

static int print_layout(void)
{
	printf("addresses_offset %zu\n", __builtin_offsetof(struct sample, addresses));
	printf("addresses_max %d\nuser_frames_max %d\nkernel_frames_max %d\n", ADDRESSES_MAX, USER_FRAMES_MAX, KERNEL_FRAMES_MAX);
	printf("node_bytes %zu\nnodes_per_shard %d\nshards_max %d\n", sizeof(struct node), NODES_PER_SHARD, SHARDS_MAX);
	printf("block_bytes %zu\nblocks_max %d\n", sizeof(struct block), BLOCKS_MAX);
	printf("mappings_max %d\nprocesses_max %d\n", 1 << MAPPING_STEPS, PROCESSES_MAX);
	printf("table_bytes %zu\ntables_max %d\n", sizeof(struct table), TABLES_MAX);
	printf("copied_stack_offset %zu\n", __builtin_offsetof(struct copy, stack));
	printf("process_bytes %zu\nstops %d\n", sizeof(struct process), STOP_NONE);
	return 0;
}

int main(int count, char **words)
{
	if (count == 2 && !strcmp(words[1], "layout"))
		return print_layout();
	if (count == 3 && !strcmp(words[1], "stack"))
		return replay_stack(words[2]);
	if (count == 4 && !strcmp(words[1], "hostile"))
		return replay_hostile(strtoull(words[2], 0, 10), strtoull(words[3], 0, 10));
	return 2;
}
