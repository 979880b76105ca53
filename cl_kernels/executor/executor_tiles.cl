// Runs steps first <= i < last of a table of tile functions with `workers` work-groups of one work-item each.
//
// grid: (workers), local size 1. A step's tickets are cut into one home part a worker. A worker draws the tickets of
// its own part, waits a moment for the others, then helps with theirs; before the next step all wait until every ticket
// of this one is done. A worker waits only for tickets that another has started, so that the groups may also run one
// after another. The last worker to leave sets every counter back to zero.
//
// table:    tile_step records, then descriptors and post-operation lists at byte offsets from the table's start
// counters: int[16 * (1 + last_step * (1 + workers))], zeros: how many have left; then, per step and 64 bytes apart,
//           tickets done and the next ticket of each home part
// scratch:  workers * scratch_bytes
// spins:    polls before a wait is given up
// error:    set to 1 + step when a wait did not end; all workers leave then and the results are worthless
// timed:    whether times is written
// times:    ulong[4] for each step and worker: cycle counter when it came to the step, when it found no more tickets and
//           when all were done, then how many it ran; zeros without a cycle counter
// b0 .. b7: the buffers that descriptors point into
//
// A step whose function is -1 runs probe tickets: each adds up what all tickets of the step before wrote, so that a chain
// of them goes wrong wherever one worker does not see what another did. descriptor is then a byte offset in b0.
//
// CLGRAPH_ACQ_REL (not defined): use acquire/release atomics of OpenCL C 3.0 instead of OpenCL 1.x atomics and fences.
// CLGRAPH_YIELD (not defined): between polls that take long, let another thread have the core, by the system call that
//           Linux has for it on x86-64; OpenCL C has none. A worker that waits may hold the core of the one it waits for.
// CLGRAPH_CYCLE_COUNTER (not defined): the compiler is clang, and kernels may read the CPU's cycle counter by its built-in.
// STEAL_DELAY (300): polls of the done counter before helping others.
#include "tile.clh"

#ifndef STEAL_DELAY
  #define STEAL_DELAY 300
#endif
#ifdef CLGRAPH_CYCLE_COUNTER
  #define CYCLES() __builtin_readcyclecounter()
#else
  #define CYCLES() 0
#endif

typedef struct { long descriptor, post; int function, tickets, posts, reserved; } tile_step;

#ifdef CLGRAPH_ACQ_REL
static int take(volatile __global int* p) {
  return atomic_fetch_add_explicit((volatile __global atomic_int*)p, 1, memory_order_relaxed, memory_scope_device);
}
static int peek(volatile __global int* p) {
  return atomic_load_explicit((volatile __global atomic_int*)p, memory_order_relaxed, memory_scope_device);
}
static int peek_acquire(volatile __global int* p) {
  return atomic_load_explicit((volatile __global atomic_int*)p, memory_order_acquire, memory_scope_device);
}
static int add_release(volatile __global int* p, const int n) {
  return atomic_fetch_add_explicit((volatile __global atomic_int*)p, n, memory_order_acq_rel, memory_scope_device);
}
#else
static int take(volatile __global int* p) { return atomic_inc(p); }
static int peek(volatile __global int* p) { return *p; }
static int peek_acquire(volatile __global int* p) {
  const int value = *p;
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return value;
}
static int add_release(volatile __global int* p, const int n) {
  mem_fence(CLK_GLOBAL_MEM_FENCE);
  return atomic_add(p, n);
}
#endif

#ifdef CLGRAPH_YIELD
static void yield_core() {
  long number = 24;
  __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
}
#else
static void yield_core() {}
#endif

#ifndef CLGRAPH_LIBRARY
static void run_ticket(const int function, __global const char* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {}
#endif

// Ticket t of a probe step: values[t] = 3 * (sum of the step before, from -tickets on) + t.
static void probe(__global uint* values, const int tickets, const int t) {
  uint sum = 0;
  for (int k = 0; k < tickets; k++) sum += values[k - tickets];
  values[t] = 3 * sum + t;
}

// What worker `me` does. PoCL makes three copies of a kernel, but one of a function.
NOINLINE static void run_steps(const int me, __global const char* table, const int first, const int last,
                               volatile __global int* counters, __global char* own, const int workers, const long spins,
                               volatile __global int* error, const int timed, __global ulong* times,
                               __global char** banks) {
  for (int i = first; i < last && !peek(error); i++) {
    __global const tile_step* s = (__global const tile_step*)table + i;
    volatile __global int* done = counters + 16 * (1 + i * (1 + workers));
    const long tickets = s->tickets;
    int ran = 0;
    if (timed) times[4 * (i * workers + me)] = CYCLES();
    for (int k = 0; k < workers; k++) {
      const int home = (me + k) % workers, start = tickets * home / workers;
      const int count = tickets * (home + 1) / workers - start;
      volatile __global int* next = done + 16 * (1 + home);
      if (k == 1)
        for (int polls = 0; polls < STEAL_DELAY && peek(done) < tickets; polls++) {}
      if (k && (peek(done) >= tickets || peek(next) >= count)) continue;
      int n = 0;
      for (int t = take(next); t < count; t = take(next), n++)
        if (s->function < 0)
          probe((__global uint*)(banks[0] + s->descriptor), tickets, start + t);
        else
          run_ticket(s->function, table + s->descriptor, banks, own, start + t,
                     (__global const post_step*)(table + s->post), s->posts);
      if (n) add_release(done, n);
      ran += n;
    }
    if (timed) times[4 * (i * workers + me) + 1] = CYCLES();
    if (i + 1 < last) {
      long polls = 0;
      while (peek_acquire(done) < tickets && polls < spins && !peek(error))
        if ((++polls & 1023) == 0) yield_core();
      if (polls == spins && peek_acquire(done) < tickets) *error = 1 + i;
    }
    if (timed) {
      times[4 * (i * workers + me) + 2] = CYCLES();
      times[4 * (i * workers + me) + 3] = ran;
    }
  }
  if (add_release(counters, 1) == workers - 1) {
    for (int i = first; i < last; i++)
      for (int k = 0; k <= workers; k++) counters[16 * (1 + i * (1 + workers) + k)] = 0;
    counters[0] = 0;
  }
}

__attribute__((reqd_work_group_size(1, 1, 1)))
__kernel void executor_tiles(__global const char* table, const int first, const int last,
                             volatile __global int* counters, __global char* scratch, const long scratch_bytes,
                             const int workers, const long spins, volatile __global int* error, const int timed,
                             __global ulong* times, __global char* b0, __global char* b1, __global char* b2, __global char* b3,
                             __global char* b4, __global char* b5, __global char* b6, __global char* b7, __global char* b8,
                             __global char* b9, __global char* b10, __global char* b11, __global char* b12, __global char* b13,
                             __global char* b14, __global char* b15, __global char* b16, __global char* b17, __global char* b18,
                             __global char* b19, __global char* b20, __global char* b21, __global char* b22, __global char* b23,
                             __global char* b24, __global char* b25, __global char* b26, __global char* b27, __global char* b28,
                             __global char* b29, __global char* b30, __global char* b31) {
  __global char* banks[32] = {b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17, b18, b19, b20,
                              b21, b22, b23, b24, b25, b26, b27, b28, b29, b30, b31};
  const int me = get_group_id(0);
  run_steps(me, table, first, last, counters, scratch + me * scratch_bytes, workers, spins, error, timed, times, banks);
}
