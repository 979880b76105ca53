// The k best elements of dense plain tensors [images][count][inner] along count, best first, and their places: of equal ones
// the first is better, and a NaN is greater than any number.
//
// An element becomes a key of 64 bits: above 32 that ascend where elements get worse, below its place, so that no two are
// equal. Few of many are kept in a heap, the worst in front; many are sorted by digits of 8 bits, from the last of those above
// (Knuth, The Art of Computer Programming, vol. 3, 5.2.5). A ticket is a run of lines.
//
// inp, out, places            dense; places are longs;  type: of the elements (element_types.clh), of up to 32 bits
// itemsize                    bytes of one
// order                       0 floats, 1 signed, 2 unsigned integers;  largest: whether the greatest are best
// count, inner, most          sizes; most: k, at least 1
// sorted                      1: sort all;  0: keep a heap
// lines, ticket_lines         in all, of a ticket
//
// scratch: keys of count elements, as many again where they are sorted, 4 * 256 uints, two runs of elements.
// Exact.
#include "element_types.clh"

#define DIGITS 256

// Ascending where elements get worse.
#define ORDERED(bits, negative) const uint up = (uint)((bits) ^ ((negative) | INT_MIN)); to[i] = largest ? ~up : up;

NOINLINE static void order_floats(__global const float* restrict x, __global uint* restrict to, const int n,
                                  const int largest) {
  for (int i = 0; i < n; i++) {
    const int bits = x[i] == 0.0f ? 0 : x[i] != x[i] ? INT_MAX : as_int(x[i]);
    ORDERED(bits, bits >> 31)
  }
}

NOINLINE static void order_ints(__global const int* restrict x, __global uint* restrict to, const int n, const int largest) {
  for (int i = 0; i < n; i++) { ORDERED(x[i], 0) }
}

NOINLINE static void order_uints(__global const uint* restrict x, __global uint* restrict to, const int n,
                                 const int largest) {
  for (int i = 0; i < n; i++) to[i] = largest ? ~x[i] : x[i];
}

// The order of n elements from `first` on of a line, in scratch.
NOINLINE static __global const uint* orders(__global const top_k_elements_desc* d, __global const char* line, const int first,
                                            __global char* scratch, const int n) {
  const int size = d->itemsize, type = d->type, largest = d->largest;
  __global const char* from = line + (long)first * d->inner * size;
  __global char* room = scratch + RUN * 8;
  __global uint* to = (__global uint*)(room + RUN * 8);
  if (d->inner > 1) {
    gather_run(from, d->inner, size, scratch, n);
    from = scratch;
  }
  if (d->order == 0) order_floats(as_floats(type, from, (__global float*)room, n), to, n, largest);
  else if (d->order == 1) order_ints(as_ints(type, from, (__global int*)room, n), to, n, largest);
  else order_uints((__global const uint*)as_ints(type, from, (__global int*)room, n), to, n, largest);
  return to;
}

// Puts `key` where it belongs below `at` in a heap of `count`, the greatest in front.
static void sink_key(__global ulong* heap, const int count, int at, const ulong key) {
  for (int child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) {
    child += child + 1 < count && heap[child + 1] > heap[child];
    if (heap[child] < key) break;
    heap[at] = heap[child];
  }
  heap[at] = key;
}

// The least `most` keys of a line, ascending.
NOINLINE static void keep_least(__global const top_k_elements_desc* d, __global const char* line, __global ulong* heap,
                                __global char* scratch) {
  const int most = d->most, count = d->count;
  int held = 0;
  for (int first = 0; first < count; first += RUN) {
    const int n = min(RUN, count - first);
    __global const uint* x = orders(d, line, first, scratch, n);
    int i = 0;
    for (; i < n && held < most; i++) heap[held++] = (ulong)x[i] << 32 | (uint)(first + i);
    if (held == most && i > 0)
      for (int at = most / 2 - 1; at >= 0; at--) sink_key(heap, most, at, heap[at]);
    // What comes later is worse than its equals.
    for (; i < n; i++) {
      if (i + 16 <= n && !any(vload16(0, x + i) < (uint16)(uint)(heap[0] >> 32))) {
        i += 15;
        continue;
      }
      if (x[i] < (uint)(heap[0] >> 32)) sink_key(heap, most, 0, (ulong)x[i] << 32 | (uint)(first + i));
    }
  }
  for (int left = most - 1; left > 0; left--) {
    const ulong worst = heap[0], key = heap[left];
    heap[left] = worst;
    sink_key(heap, left, 0, key);
  }
}

// All keys of a line, ascending: in `keys`, or in the room behind them, whichever is returned.
NOINLINE static __global const ulong* sort_all(__global const top_k_elements_desc* d, __global const char* line,
                                               __global ulong* keys, __global uint* counts, __global char* scratch) {
  const int count = d->count;
  __global ulong* others = keys + count;
  for (int i = 0; i < 4 * DIGITS; i++) counts[i] = 0;
  for (int first = 0; first < count; first += RUN) {
    const int n = min(RUN, count - first);
    __global const uint* x = orders(d, line, first, scratch, n);
    for (int i = 0; i < n; i++) {
      const uint v = x[i];
      keys[first + i] = (ulong)v << 32 | (uint)(first + i);
      counts[v & 255]++, counts[DIGITS + (v >> 8 & 255)]++;
      counts[2 * DIGITS + (v >> 16 & 255)]++, counts[3 * DIGITS + (v >> 24)]++;
    }
  }
  for (int digit = 0; digit < 4; digit++) {
    __global uint* own = counts + digit * DIGITS;
    const int shift = 32 + 8 * digit;
    if (own[keys[0] >> shift & 255] == (uint)count) continue;
    uint before = 0;
    for (int i = 0; i < DIGITS; i++) {
      const uint here = own[i];
      own[i] = before;
      before += here;
    }
    for (int i = 0; i < count; i++) {
      const ulong key = keys[i];
      others[own[key >> shift & 255]++] = key;
    }
    __global ulong* sorted = others;
    others = keys, keys = sorted;
  }
  return keys;
}

#define TAKE(T) \
  if (size == sizeof(T)) \
    for (int i = 0; i < most; i++) \
      ((__global T*)out)[(long)i * inner] = ((__global const T*)line)[(long)(uint)keys[i] * inner];

static void top_k_elements(__global const top_k_elements_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int inner = d->inner, count = d->count, most = d->most, size = d->itemsize;
  __global char* runs = scratch;
  __global uint* counts = (__global uint*)(scratch + 3 * RUN * 8);
  __global ulong* room = (__global ulong*)(counts + 4 * DIGITS);
  const int last = min((ticket + 1) * d->ticket_lines, d->lines);
  for (int p = ticket * d->ticket_lines; p < last; p++) {
    const int image = p / inner, x = p - image * inner;
    __global const char* line = AT(const char, banks, d->inp) + ((long)image * count * inner + x) * size;
    const long at = (long)image * most * inner + x;
    __global char* out = AT(char, banks, d->out) + at * size;
    __global long* places = AT(long, banks, d->places) + at;
    __global const ulong* keys = room;
    if (d->sorted) keys = sort_all(d, line, room, counts, runs);
    else keep_least(d, line, room, runs);
    TAKE(uchar)
    TAKE(ushort)
    TAKE(uint)
    for (int i = 0; i < most; i++) places[(long)i * inner] = (long)(keys[i] & 0xffffffff);
  }
}
