// The k best elements of dense plain tensors [images][count][inner] along count, best first, and their places: of equal ones
// the first is better, and a NaN is greater than any number.
//
// An element becomes a key, bits that ascend where elements get worse and its place, so that no two are equal: both in one long of
// elements of up to 32 bits, else two. Few of many are kept in a heap, the worst in front; many are sorted by digits of 8 bits,
// from the last on (Knuth, The Art of Computer Programming, vol. 3, 5.2.5). The few best of lines side by side, or of short
// ones, are kept in order: a vector has an element of each of sixteen lines. A ticket is a run of lines.
//
// inp, out, places            dense; places are longs;  type: of the elements (element_types.clh)
// itemsize                    bytes of one
// order                       0 floats, 1 signed, 2 unsigned integers, from 3 on doubles and such of 64 bits;  largest: whether
//                             the greatest are best
// count, inner, most          sizes; most: k, at least 1
// sorted                      2: lines side by side;  1: sort all;  0: keep a heap
// lines, ticket_lines         in all, of a ticket
//
// scratch: three runs of elements, 8 * 256 uints, then keys: of count elements and as many again where they are sorted, else k;
// of lines side by side k * BESIDE orders and as many places.
// Exact.
#include "element_types.clh"

#define DIGITS 256
#define BESIDE RUN

// Ascending where elements get worse. LEAST: the sign's bit.
#define ORDERS(T, X, K, LEAST, e) \
  NOINLINE static void order_##T##s(__global const T* restrict x, __global X* restrict to, const int n, const int largest) { \
    const X turned = largest ? ~(X)0 : 0; \
    for (int i = 0; i < n; i++) { \
      const K bits = (e); \
      to[i] = (X)bits ^ LEAST ^ turned; \
    } \
  }
#define FLOAT_BITS(K, as_bits, MOST, SIGN) \
  x[i] == 0 ? 0 : x[i] != x[i] ? MOST : as_bits(x[i]) ^ (as_bits(x[i]) >> SIGN & MOST)
ORDERS(float, uint, int, 0x80000000u, FLOAT_BITS(int, as_int, INT_MAX, 31))
ORDERS(int, uint, int, 0x80000000u, x[i])
ORDERS(uint, uint, uint, 0u, x[i])
ORDERS(long, ulong, long, 0x8000000000000000ul, x[i])
ORDERS(ulong, ulong, ulong, 0ul, x[i])
#ifdef cl_khr_fp64
ORDERS(double, ulong, long, 0x8000000000000000ul, FLOAT_BITS(long, as_long, LONG_MAX, 63))
#endif

// n elements, each `step` behind the one before, side by side.
static __global const char* neighbours(__global const top_k_elements_desc* d, __global const char* from, const int step,
                                       __global char* scratch, const int n) {
  if (step == 1) return from;
  gather_run(from, step, d->itemsize, scratch, n);
  return scratch;
}

// Their orders; `scratch` has room for them in three types.
NOINLINE static __global const uint* narrow_orders(__global const top_k_elements_desc* d, __global const char* x, const int step,
                                                   __global char* scratch, const int n) {
  const int type = d->type, largest = d->largest;
  __global const char* from = neighbours(d, x, step, scratch, n);
  __global char* room = scratch + RUN * 8;
  __global uint* to = (__global uint*)(room + RUN * 8);
  if (d->order == 0) order_floats(as_floats(type, from, (__global float*)room, n), to, n, largest);
  else if (d->order == 1) order_ints(as_ints(type, from, (__global int*)room, n), to, n, largest);
  else order_uints((__global const uint*)as_ints(type, from, (__global int*)room, n), to, n, largest);
  return to;
}

NOINLINE static __global const ulong* wide_orders(__global const top_k_elements_desc* d, __global const char* x, const int step,
                                                  __global char* scratch, const int n) {
  __global const char* from = neighbours(d, x, step, scratch, n);
  __global ulong* to = (__global ulong*)(scratch + 2 * RUN * 8);
#ifdef cl_khr_fp64
  if (d->order == 3) order_doubles((__global const double*)from, to, n, d->largest);
#endif
  if (d->order == 4) order_longs((__global const long*)from, to, n, d->largest);
  if (d->order == 5) order_ulongs((__global const ulong*)from, to, n, d->largest);
  return to;
}

typedef struct {
  ulong order, place;
} wide_key;

static ulong narrow_of(const uint order, const int place) { return (ulong)order << 32 | (uint)place; }
static uint narrow_order(const ulong key) { return (uint)(key >> 32); }
static long narrow_place(const ulong key) { return (long)(uint)key; }
static int narrow_below(const ulong a, const ulong b) { return a < b; }

static wide_key wide_of(const ulong order, const int place) {
  const wide_key key = {order, (ulong)place};
  return key;
}
static ulong wide_order(const wide_key key) { return key.order; }
static long wide_place(const wide_key key) { return (long)key.place; }
static int wide_below(const wide_key a, const wide_key b) {
  return a.order < b.order || (a.order == b.order && a.place < b.place);
}

// sink_: puts `key` where it belongs below `at` in a heap of `count`, the greatest in front.
// keep_: the least `most` keys of a line, ascending.
// keep_beside_: the orders and places of the `most` best of n lines, of which each begins `step` elements behind the one before,
// best first: [most][BESIDE].
// sort_: all keys of a line, ascending: in `keys`, or in the room behind them, whichever is returned.
#define KEYS(NAME, K, X, MASK) \
  static void sink_##NAME(__global K* heap, const int count, int at, const K key) { \
    for (int child = 2 * at + 1; child < count; at = child, child = 2 * at + 1) { \
      child += child + 1 < count && NAME##_below(heap[child], heap[child + 1]); \
      if (NAME##_below(heap[child], key)) break; \
      heap[at] = heap[child]; \
    } \
    heap[at] = key; \
  } \
  NOINLINE static void keep_##NAME(__global const top_k_elements_desc* d, __global const char* line, __global K* heap, \
                                   __global char* scratch) { \
    const int most = d->most, count = d->count; \
    int held = 0; \
    for (int first = 0; first < count; first += RUN) { \
      const int n = min(RUN, count - first); \
      __global const X* x = NAME##_orders(d, line + (long)first * d->inner * d->itemsize, d->inner, scratch, n); \
      int i = 0; \
      for (; i < n && held < most; i++) heap[held++] = NAME##_of(x[i], first + i); \
      if (held == most && i > 0) \
        for (int at = most / 2 - 1; at >= 0; at--) sink_##NAME(heap, most, at, heap[at]); \
      /* What comes later is worse than its equals. */ \
      for (; i < n; i++) { \
        if (i + 16 <= n && !any(vload16(0, x + i) < (X##16)NAME##_order(heap[0]))) { \
          i += 15; \
          continue; \
        } \
        if (x[i] < NAME##_order(heap[0])) sink_##NAME(heap, most, 0, NAME##_of(x[i], first + i)); \
      } \
    } \
    for (int left = most - 1; left > 0; left--) { \
      const K worst = heap[0], key = heap[left]; \
      heap[left] = worst; \
      sink_##NAME(heap, left, 0, key); \
    } \
  } \
  NOINLINE static void keep_beside_##NAME(__global const top_k_elements_desc* d, __global const char* lines, const int step, \
                                          __global X* orders, __global X* places, __global char* scratch, const int n) { \
    const int most = d->most, count = d->count; \
    for (int i = 0; i < count; i++) { \
      const int held = min(i, most); \
      __global const X* x = NAME##_orders(d, lines + (long)i * d->inner * d->itemsize, step, scratch, n); \
      for (int v = 0; v < n; v += 16) { \
        X##16 order = vload16(0, x + v), place = (X##16)(i); \
        /* What comes later is worse than its equals. */ \
        if (held == most && !any(order < vload16(0, orders + (most - 1) * BESIDE + v))) continue; \
        for (int at = v; at < held * BESIDE; at += BESIDE) { \
          const X##16 own = vload16(0, orders + at), there = vload16(0, places + at); \
          const MASK before = order < own || (order == own && place < there); \
          vstore16(before ? order : own, 0, orders + at); \
          vstore16(before ? place : there, 0, places + at); \
          const X##16 last = before ? own : order; \
          place = before ? there : place; \
          order = last; \
        } \
        if (held < most) { \
          vstore16(order, 0, orders + held * BESIDE + v); \
          vstore16(place, 0, places + held * BESIDE + v); \
        } \
      } \
    } \
  } \
  NOINLINE static __global const K* sort_##NAME(__global const top_k_elements_desc* d, __global const char* line, \
                                                __global K* keys, __global uint* counts, __global char* scratch) { \
    const int count = d->count; \
    __global K* others = keys + count; \
    for (int i = 0; i < (int)sizeof(X) * DIGITS; i++) counts[i] = 0; \
    for (int first = 0; first < count; first += RUN) { \
      const int n = min(RUN, count - first); \
      __global const X* x = NAME##_orders(d, line + (long)first * d->inner * d->itemsize, d->inner, scratch, n); \
      for (int i = 0; i < n; i++) { \
        keys[first + i] = NAME##_of(x[i], first + i); \
        for (int digit = 0; digit < (int)sizeof(X); digit++) counts[digit * DIGITS + (x[i] >> 8 * digit & 255)]++; \
      } \
    } \
    for (int digit = 0; digit < (int)sizeof(X); digit++) { \
      __global uint* own = counts + digit * DIGITS; \
      const int shift = 8 * digit; \
      if (own[NAME##_order(keys[0]) >> shift & 255] == (uint)count) continue; \
      uint before = 0; \
      for (int i = 0; i < DIGITS; i++) { \
        const uint here = own[i]; \
        own[i] = before; \
        before += here; \
      } \
      for (int i = 0; i < count; i++) { \
        const K key = keys[i]; \
        others[own[NAME##_order(key) >> shift & 255]++] = key; \
      } \
      __global K* sorted = others; \
      others = keys, keys = sorted; \
    } \
    return keys; \
  } \
  static void beside_##NAME(__global const top_k_elements_desc* d, __global const char* lines, __global char* out, \
                            __global long* places, __global char* scratch, const int n) { \
    const int inner = d->inner, most = d->most, size = d->itemsize, step = inner == 1 ? d->count : 1; \
    const int across = inner == 1 ? most : 1; \
    __global X* orders = (__global X*)(scratch + 3 * RUN * 8 + 4 * 8 * DIGITS); \
    __global X* found = orders + most * BESIDE; \
    keep_beside_##NAME(d, lines, step, orders, found, scratch, n); \
    TAKE_BESIDE(uchar) \
    TAKE_BESIDE(ushort) \
    TAKE_BESIDE(uint) \
    TAKE_BESIDE(ulong) \
    for (int i = 0; i < most; i++) \
      for (int k = 0; k < n; k++) places[(long)i * inner + k * across] = (long)found[i * BESIDE + k]; \
  } \
  static void best_##NAME(__global const top_k_elements_desc* d, __global const char* line, __global char* out, \
                          __global long* places, __global char* scratch) { \
    const int inner = d->inner, most = d->most, size = d->itemsize; \
    __global uint* counts = (__global uint*)(scratch + 3 * RUN * 8); \
    __global K* room = (__global K*)(counts + 8 * DIGITS); \
    __global const K* keys = room; \
    if (d->sorted) keys = sort_##NAME(d, line, room, counts, scratch); \
    else keep_##NAME(d, line, room, scratch); \
    TAKE(uchar, NAME) \
    TAKE(ushort, NAME) \
    TAKE(uint, NAME) \
    TAKE(ulong, NAME) \
    for (int i = 0; i < most; i++) places[(long)i * inner] = NAME##_place(keys[i]); \
  }
#define TAKE(T, NAME) \
  if (size == sizeof(T)) \
    for (int i = 0; i < most; i++) \
      ((__global T*)out)[(long)i * inner] = ((__global const T*)line)[NAME##_place(keys[i]) * inner];
#define TAKE_BESIDE(T) \
  if (size == sizeof(T)) \
    for (int i = 0; i < most; i++) \
      for (int k = 0; k < n; k++) \
        ((__global T*)out)[(long)i * inner + k * across] = \
            ((__global const T*)lines)[(long)k * step + (long)found[i * BESIDE + k] * inner];
KEYS(narrow, ulong, uint, int16)
KEYS(wide, wide_key, ulong, long16)

static void top_k_elements(__global const top_k_elements_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int inner = d->inner, count = d->count, most = d->most, size = d->itemsize;
  const int last = min((ticket + 1) * d->ticket_lines, d->lines);
  for (int p = ticket * d->ticket_lines, n = 1; p < last; p += n) {
    const int image = p / inner, x = p - image * inner;
    __global const char* line = AT(const char, banks, d->inp) + ((long)image * count * inner + x) * size;
    const long at = (long)image * most * inner + x;
    __global char* out = AT(char, banks, d->out) + at * size;
    __global long* places = AT(long, banks, d->places) + at;
    if (d->sorted == 2) {
      n = min(BESIDE, inner == 1 ? last - p : min(last - p, inner - x));
      if (d->order < 3) beside_narrow(d, line, out, places, scratch, n);
      else beside_wide(d, line, out, places, scratch, n);
    } else if (d->order < 3) best_narrow(d, line, out, places, scratch);
    else best_wide(d, line, out, places, scratch);
  }
}
#undef TAKE
#undef TAKE_BESIDE
#undef KEYS
#undef BESIDE
