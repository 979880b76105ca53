// A machine for kernels with PTX, or with the instructions of Intel's or AMD's matrix units: runs the work-groups of a kernel
// one after the other, a fibre a work-item.
//
// A fibre runs until it reaches a barrier, an instruction of its warp, or its end. When all lanes of a warp have reached
// the same instruction, it is carried out for all of them. Which warp goes on next is drawn at random. Copies to local
// memory land as late as the kernel allows, when it waits for their group, or at once; both are legal. What is wrong
// (lanes of a warp at different instructions, copies from or to strange places, copies that nobody waits for) ends the
// run with a message. Work-groups do not run at the same time: races between them are not seen.
//
// Compiled without any header; x86-64 only.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

void* memcpy(void* to, const void* from, u64 count);
void* memset(void* to, int value, u64 count);
int snprintf(char* to, u64 size, const char* format, ...);
double trunc(double x);

enum { MOST = 1024, STACK = 1 << 16, QUEUE = 512 };
enum { RUNNABLE, AT_BARRIER, AT_WARP, DONE };
enum { LDMATRIX, LDMATRIX_TRANS, MMA_F16, MMA_TF32, SHUFFLE, SHARE, MMA_S8, MMA_F16_8, MMA_S8_16 };

typedef struct {
  int kind;
  u32 words[6];  // addresses, fragments of a and b, or what is exchanged; the number of what is shared
  const u32* shared;
  void* result;
} instruction;

typedef struct {
  u32 to, bytes;
  u64 from;
  int group;
} copy;

static struct {
  void* stack;
  int state;
  instruction at;
  copy queue[QUEUE];
  int first, last, groups;
} fibres[MOST];

static u8 stacks[MOST][STACK] __attribute__((aligned(64)));
static void* scheduler;
static int current, items, lanes;
static u64 sizes[3], places[3], counts[3];
static u64 local_low, local_high, local_base;
static const u64* ranges;
static int range_count;
static void (*entry)(u64*);
static u64* arguments;
static u32 dice;
static double half_values[1 << 16];

int machine_late = 1;
long machine_passes, machine_ideal;
char machine_error[256];

#define FAIL(...) \
  do { if (!machine_error[0]) snprintf(machine_error, sizeof machine_error, __VA_ARGS__); } while (0)

void machine_switch(void** from, void* to);
__asm__(
    ".text\n.globl machine_switch\nmachine_switch:\n"
    " push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n");

static void leave(const int state) {
  const int me = current;
  fibres[me].state = state;
  machine_switch(&fibres[me].stack, scheduler);
}

static void run_fibre(void) {
  entry(arguments);
  for (;;) leave(DONE);
}

// What kernels call.

u64 machine_place(u32 which, u32 axis) {
  if (axis > 2) return which == 2 || which == 3;
  u64 at[3] = {current % sizes[0], current / sizes[0] % sizes[1], current / (sizes[0] * sizes[1])};
  return which == 0 ? at[axis] : which == 1 ? places[axis] : which == 2 ? sizes[axis] : counts[axis];
}

void machine_barrier(void) { leave(AT_BARRIER); }

u32 machine_shared(u64 pointer) {
  if (pointer < local_low || pointer >= local_high) FAIL("an address that is not in local memory is taken for one");
  return (u32)(pointer - local_base);
}

static u8* local(const u32 address, const u32 bytes) {
  const u64 at = local_base + address;
  if (address % 16) FAIL("local address %u is not a multiple of 16", address);
  if (at < local_low || at + bytes > local_high) {
    FAIL("local address %u is outside", address);
    return (u8*)local_low;
  }
  return (u8*)at;
}

static void land(const copy* c) {
  u8* to = local(c->to, 16);
  memset(to, 0, 16);
  memcpy(to, (const void*)c->from, c->bytes);
}

void machine_copy(u32 to, u64 from, u32 bytes) {
  copy c = {to, bytes, from, fibres[current].groups};
  int known = bytes == 0;
  for (int i = 0; i < range_count; i++) known |= from >= ranges[2 * i] && from + bytes <= ranges[2 * i + 1];
  if (from % 16 && bytes) FAIL("a copy reads from an address that is not a multiple of 16");
  if (bytes > 16) FAIL("a copy of %u bytes", bytes);
  if (!known) FAIL("a copy reads outside of every tensor");
  if (machine_error[0]) return;
  if (!machine_late) {
    land(&c);
    return;
  }
  if (fibres[current].last - fibres[current].first >= QUEUE) FAIL("more copies under way than this machine has room for");
  fibres[current].queue[fibres[current].last++ % QUEUE] = c;
}

void machine_commit(void) { fibres[current].groups++; }

void machine_wait(int pending) {
  const int me = current;
  while (fibres[me].first != fibres[me].last) {
    copy* c = &fibres[me].queue[fibres[me].first % QUEUE];
    if (c->group >= fibres[me].groups - pending) break;
    land(c);
    fibres[me].first++;
  }
}

void machine_instruction(int kind, u32* words, int count, void* result) {
  instruction* at = &fibres[current].at;
  at->kind = kind;
  for (int i = 0; i < count; i++) at->words[i] = words[i];
  at->result = result;
  leave(AT_WARP);
}

// Gives every lane what all lanes of its warp have: `count` words of each.
void machine_share(const u32* words, int count, u32* every) {
  instruction* at = &fibres[current].at;
  at->kind = SHARE;
  at->words[0] = (u32)count;
  at->shared = words;
  at->result = every;
  leave(AT_WARP);
}

// Stops unless `bytes` from `from` on lie in a tensor.
void machine_reads(u64 from, u32 bytes) {
  int known = 0;
  for (int i = 0; i < range_count; i++) known |= from >= ranges[2 * i] && from + bytes <= ranges[2 * i + 1];
  if (!known) FAIL("a block is read outside of every tensor");
}

void machine_fail(const char* what) { FAIL("%s", what); }

// The hardware is reported to truncate: towards zero, once an instruction.
float machine_truncated(const double x) {
  float f = (float)x;
  u32 bits;
  memcpy(&bits, &f, 4);
  if (x - x == 0 && (x > 0 ? f > x : f < x)) bits--;
  memcpy(&f, &bits, 4);
  return f;
}

float machine_half(u32 bits) {
  u16 low = (u16)bits;
  _Float16 h;
  memcpy(&h, &low, 2);
  return (float)h;
}

u32 machine_to_half(float x) {
  _Float16 h = (_Float16)x;
  u16 bits;
  memcpy(&bits, &h, 2);
  return bits;
}

// Instructions, for all lanes of the warp whose first lane is `w`.

static void count_passes(const int w) {
  for (int m = 0; m < 4; m++) {
    int hits[8] = {0}, most = 0;
    for (int i = 0; i < 8; i++) {
      const u32 a = fibres[w + 8 * m + i].at.words[0];
      int twice = 0;
      for (int j = 0; j < i; j++) twice |= fibres[w + 8 * m + j].at.words[0] == a;
      if (!twice && ++hits[a / 16 % 8] > most) most = hits[a / 16 % 8];
    }
    machine_passes += most;
    machine_ideal++;
  }
}

static void ldmatrix(const int w, const int transposed) {
  count_passes(w);
  for (int lane = 0; lane < lanes; lane++) {
    u32* r = fibres[w + lane].at.result;
    for (int m = 0; m < 4; m++) {
      u16 pair[2];
      for (int e = 0; e < 2; e++) {
        const int along = lane % 4 * 2 + e, across = lane / 4;
        const u8* row = local(fibres[w + 8 * m + (transposed ? along : across)].at.words[0], 16);
        memcpy(&pair[e], row + 2 * (transposed ? across : along), 2);
      }
      r[m] = pair[0] | (u32)pair[1] << 16;
    }
  }
}

static double tf32(u32 bits) {
  float f;
  bits &= 0xffffe000u;
  memcpy(&f, &bits, 4);
  return f;
}

static double factor(const int kind, const u32 word, const int k) {
  return kind == MMA_F16 ? half_values[word >> k % 2 * 16 & 0xffff] : tf32(word);
}

// m16n8k16 of halves and m16n8k8 of tf32: a word of a lane holds two halves or one tf32.
static void mma(const int w, const int kind) {
  const int each = kind == MMA_F16 ? 2 : 1, depth = 8 * each;
  for (int lane = 0; lane < lanes; lane++) {
    float* c = fibres[w + lane].at.result;
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2, low = i / 2;
      double sum = c[i];
      for (int k = 0; k < depth; k++) {
        const int high = k >= depth / 2, at = k % (depth / 2) / each;
        const u32 a = fibres[w + 4 * row + at].at.words[2 * high + low];
        const u32 b = fibres[w + 4 * column + at].at.words[4 + high];
        sum += factor(kind, a, k) * factor(kind, b, k);
      }
      c[i] = machine_truncated(sum);
    }
  }
}

// m16n8k32 of signed bytes: a word of a lane holds four of them. Sums wrap around.
static void mma_of_bytes(const int w) {
  for (int lane = 0; lane < lanes; lane++) {
    u32* c = fibres[w + lane].at.result;
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2, low = i / 2;
      for (int k = 0; k < 32; k++) {
        const int high = k / 16, at = k % 16 / 4, shift = k % 4 * 8;
        const u32 a = fibres[w + 4 * row + at].at.words[2 * high + low];
        const u32 b = fibres[w + 4 * column + at].at.words[4 + high];
        c[i] += (u32)((signed char)(a >> shift) * (signed char)(b >> shift));
      }
    }
  }
}

// m16n8k8 of halves: rows 0 to 7 in the first word of a, the others in the second.
static void mma_of_eight(const int w) {
  for (int lane = 0; lane < lanes; lane++) {
    float* c = fibres[w + lane].at.result;
    for (int i = 0; i < 4; i++) {
      const int row = lane / 4, column = lane % 4 * 2 + i % 2;
      double sum = c[i];
      for (int k = 0; k < 8; k++) {
        const u32 a = fibres[w + 4 * row + k / 2].at.words[i / 2];
        sum += factor(MMA_F16, a, k) * factor(MMA_F16, fibres[w + 4 * column + k / 2].at.words[2], k);
      }
      c[i] = machine_truncated(sum);
    }
  }
}

// m8n8k16 of signed bytes.
static void mma_of_few_bytes(const int w) {
  for (int lane = 0; lane < lanes; lane++) {
    u32* c = fibres[w + lane].at.result;
    for (int i = 0; i < 2; i++)
      for (int k = 0; k < 16; k++) {
        const u32 a = fibres[w + 4 * (lane / 4) + k / 4].at.words[0] >> k % 4 * 8;
        const u32 b = fibres[w + 4 * (lane % 4 * 2 + i) + k / 4].at.words[1] >> k % 4 * 8;
        c[i] += (u32)((signed char)a * (signed char)b);
      }
  }
}

static void shuffle(const int w) {
  for (int lane = 0; lane < lanes; lane++) {
    const u32 mask = fibres[w + lane].at.words[1];
    if (mask >= lanes) FAIL("a shuffle over more than a warp");
    *(u32*)fibres[w + lane].at.result = fibres[w + (lane ^ mask % lanes)].at.words[0];
  }
}

static void share(const int w) {
  const u32 count = fibres[w].at.words[0];
  for (int lane = 0; lane < lanes; lane++) {
    if (fibres[w + lane].at.words[0] != count) FAIL("the lanes of a warp share different numbers of words");
    for (int other = 0; other < lanes && !machine_error[0]; other++)
      memcpy((u32*)fibres[w + lane].at.result + other * count, fibres[w + other].at.shared, 4 * count);
  }
}

static void carry_out(const int w) {
  const int kind = fibres[w].at.kind;
  for (int lane = 1; lane < lanes; lane++)
    if (fibres[w + lane].at.kind != kind) FAIL("the lanes of a warp are at different instructions");
  if (machine_error[0]) return;
  if (kind == LDMATRIX || kind == LDMATRIX_TRANS) ldmatrix(w, kind == LDMATRIX_TRANS);
  if (kind == MMA_F16 || kind == MMA_TF32) mma(w, kind);
  if (kind == MMA_S8) mma_of_bytes(w);
  if (kind == MMA_F16_8) mma_of_eight(w);
  if (kind == MMA_S8_16) mma_of_few_bytes(w);
  if (kind == SHUFFLE) shuffle(w);
  if (kind == SHARE) share(w);
}

// Runs warp `w` to its next instruction or barrier; returns whether it can go on.
static int advance(const int w) {
  for (int i = w; i < w + lanes && i < items; i++) {
    if (fibres[i].state != RUNNABLE) continue;
    current = i;
    machine_switch(&scheduler, fibres[i].stack);
    if (fibres[i].state == DONE && fibres[i].first != fibres[i].last) FAIL("copies are under way at the end");
  }
  int waiting = 0;
  for (int i = w; i < w + lanes && i < items; i++) waiting += fibres[i].state == AT_WARP;
  if (!waiting) return 0;
  if (waiting != lanes) {
    FAIL("%d of %d lanes are at an instruction of the whole warp", waiting, lanes);
    return 0;
  }
  carry_out(w);
  for (int i = w; i < w + lanes; i++) fibres[i].state = RUNNABLE;
  return 1;
}

static void prepare(const int i) {
  u64* top = (u64*)(stacks[i] + STACK - 64);
  top[0] = (u64)run_fibre;
  fibres[i].stack = top - 6;
  fibres[i].state = RUNNABLE;
  fibres[i].first = fibres[i].last = fibres[i].groups = 0;
}

static void run_group(void) {
  int open[MOST];
  const int warps = (items + lanes - 1) / lanes;
  memset((void*)local_low, 0xff, local_high - local_low);
  for (int i = 0; i < items; i++) prepare(i);
  for (int done = 0; done < items && !machine_error[0];) {
    int left = warps;
    for (int i = 0; i < warps; i++) open[i] = i * lanes;
    while (left && !machine_error[0]) {
      dice = dice * 1664525u + 1013904223u;
      const int draw = (dice >> 8) % left;
      if (!advance(open[draw])) open[draw] = open[--left];
    }
    int waiting = 0;
    done = 0;
    for (int i = 0; i < items; i++) {
      waiting += fibres[i].state == AT_BARRIER;
      done += fibres[i].state == DONE;
    }
    if (waiting && done) FAIL("%d of %d work-items are at a barrier, the others have ended", waiting, items);
    for (int i = 0; i < items; i++)
      if (fibres[i].state == AT_BARRIER) fibres[i].state = RUNNABLE;
  }
}

struct object { u64 address; const char* name; const u8* headers; u16 count; };
int dl_iterate_phdr(int (*visit)(struct object*, u64, void*), void* data);

// Local memory of a kernel is all that its library leaves uninitialised.
static int find_local(struct object* o, u64 size, void* function) {
  u64 low = 0, high = 0, fixed = 0, fixed_end = 0;
  int mine = 0;
  for (int i = 0; i < o->count; i++) {
    const u8* h = o->headers + 56 * i;
    u32 type, flags;
    u64 start, in_file, in_memory;
    memcpy(&type, h, 4);
    memcpy(&flags, h + 4, 4);
    memcpy(&start, h + 16, 8);
    memcpy(&in_file, h + 32, 8);
    memcpy(&in_memory, h + 40, 8);
    start += o->address;
    if (type == 0x6474e552) {  // what the loader writes and then protects
      fixed = start;
      fixed_end = start + in_memory;
    }
    if (type != 1) continue;
    mine |= (u64)function >= start && (u64)function < start + in_memory;
    if (flags & 2 && in_memory > in_file) {
      low = start + in_file;
      high = start + in_memory;
    }
  }
  if (mine && (low < fixed || low >= fixed_end)) {
    local_low = low;
    local_high = high;
  }
  return mine;
}

// Runs all groups of `function`, in warps of `warp` lanes. known: first and past-the-last address of each tensor. Returns 0,
// or 1 with a message.
int machine_run(void* function, u64* args, const u64* grid, const u64* group, const u64* known, int known_count,
                u32 seed, int late, int warp) {
  machine_error[0] = 0;
  if (half_values[0x3c00] == 0)
    for (u32 i = 0; i < 1 << 16; i++) half_values[i] = machine_half(i);
  local_low = local_high = 0;
  dl_iterate_phdr(find_local, function);
  local_base = local_low & ~0xfffful;
  entry = (void (*)(u64*))function;
  arguments = args;
  ranges = known;
  range_count = known_count;
  dice = seed;
  lanes = warp;
  machine_late = late;
  for (int axis = 0; axis < 3; axis++) {
    sizes[axis] = group[axis];
    counts[axis] = grid[axis] / group[axis];
  }
  items = (int)(group[0] * group[1] * group[2]);
  if (items > MOST) FAIL("groups of %d work-items", items);
  for (places[2] = 0; places[2] < counts[2]; places[2]++)
    for (places[1] = 0; places[1] < counts[1]; places[1]++)
      for (places[0] = 0; places[0] < counts[0] && !machine_error[0]; places[0]++) run_group();
  return machine_error[0] != 0;
}
