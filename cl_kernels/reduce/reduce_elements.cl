// Sums, means, extrema and products over some axes of plain tensors of any element types.
//
// Axes outer and rows stay, across and along are reduced, in any order; inner is the last axis where that stays, else 1. Then a
// result is made of runs that lie side by side; else runs of inner are added up. A ticket is a run of units: of results, or
// of runs of one index of outer and rows.
//
// inp, out                    plain tensors;  in_type, out_type (element_types.clh), in_size, out_size: bytes of an element
// whole                       1: computed with longs;  0: with floats
// operation                   0 sum, 1 mean, 2 max, 3 min, 4 prod, 5 l1, 6 l2, 7 sum of squares
// rows, across, along, inner  sizes
// in_outer, in_rows, in_across, in_along    elements of x from one index to the next; inner: 1, or along: 1
// out_outer, out_rows         of y
// count                       elements that a result is made of
// inner_runs                  runs of inner;  units, ticket_units: in all, of a ticket, the latter a multiple of 16
//
// The list is applied to results, y seen as [n][x]: n is the unit's index of outer and rows, or 0 where inner is 1.
// Sums are made of sums of up to 64. Error: (64 + count / 64) * 2^-24 * sum |x| for sums, relative count * 2^-24 for products,
// none for extrema and integers, which wrap.
#include "element_types.clh"

#define REDUCE_MEAN 1
#define REDUCE_MAX 2
#define REDUCE_MIN 3
#define REDUCE_PROD 4
#define REDUCE_L1 5
#define REDUCE_L2 6
#define REDUCE_SQUARES 7

static float sum_of_16(const float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return b.s0 + b.s1 + b.s2 + b.s3;
}

static float joined_floats(const int function, const float a, const float b) {
  if (function == REDUCE_MAX) return b > a || b != b ? b : a;
  if (function == REDUCE_MIN) return b < a || b != b ? b : a;
  return function == REDUCE_PROD ? a * b : a + b;
}

static float taken_float(const int function, const float v) {
  return function == REDUCE_L1 ? fabs(v) : function == REDUCE_L2 || function == REDUCE_SQUARES ? v * v : v;
}

static float begin_float(const int function) {
  return function == REDUCE_MAX ? -INFINITY : function == REDUCE_MIN ? INFINITY : function == REDUCE_PROD ? 1.0f : 0.0f;
}

#define LANES_16(begin, e) \
  { \
    float16 all = (float16)(begin); \
    for (; i + 16 <= n; i += 16) { \
      const float16 v = LOAD_LOOSE(x + i); \
      all = (e); \
    } \
    for (int l = 0; l < 16; l++) lanes[l] = all[l]; \
    break; \
  }

#define GREATER(v, all) ((v) > (all) || (v) != (v) ? (v) : (all))
#define LESSER(v, all) ((v) < (all) || (v) != (v) ? (v) : (all))

// Four vectors side by side: the next comparison with one does not wait for the one before.
#define EXTREMES(BEST) \
  { \
    float16 a = begin, b = begin, c = begin, e = begin; \
    for (; i + 64 <= n; i += 64) { \
      const float16 p = LOAD_LOOSE(x + i), q = LOAD_LOOSE(x + i + 16); \
      const float16 r = LOAD_LOOSE(x + i + 32), s = LOAD_LOOSE(x + i + 48); \
      a = BEST(p, a), b = BEST(q, b), c = BEST(r, c), e = BEST(s, e); \
    } \
    a = BEST(b, a), c = BEST(e, c), a = BEST(c, a); \
    for (; i + 16 <= n; i += 16) { \
      const float16 v = LOAD_LOOSE(x + i); \
      a = BEST(v, a); \
    } \
    for (int l = 0; l < 16; l++) lanes[l] = a[l]; \
    break; \
  }

// The reduction of at most RUN floats.
NOINLINE static float reduced_floats(const int function, __global const float* x, const int n) {
  float lanes[16];
  int i = 0;
  const float begin = begin_float(function);
  switch (function) {
  case REDUCE_MAX: EXTREMES(GREATER)
  case REDUCE_MIN: EXTREMES(LESSER)
  case REDUCE_PROD: LANES_16(begin, all * v)
  case REDUCE_L1: LANES_16(begin, all + fabs(v))
  case REDUCE_L2:
  case REDUCE_SQUARES: LANES_16(begin, fma(v, v, all))
  default: LANES_16(begin, all + v)
  }
  float result = begin;
  if (i > 0 && (function < REDUCE_MAX || function > REDUCE_PROD)) result = sum_of_16(vload16(0, lanes));
  else if (i > 0)
    for (int l = 0; l < 16; l++) result = joined_floats(function, result, lanes[l]);
  for (; i < n; i++) result = joined_floats(function, result, taken_float(function, x[i]));
  return result;
}
#undef LANES_16
#undef EXTREMES

#define ALL(e) \
  { \
    for (int i = 0; i < n; i++) y[i] = (e); \
    return; \
  }

// y[i] = y[i] joined with x[i].
NOINLINE static void join_floats(const int function, __global const float* restrict x, __global float* restrict y,
                                 const int n) {
  switch (function) {
  case REDUCE_MAX: ALL(x[i] > y[i] || x[i] != x[i] ? x[i] : y[i])
  case REDUCE_MIN: ALL(x[i] < y[i] || x[i] != x[i] ? x[i] : y[i])
  case REDUCE_PROD: ALL(y[i] * x[i])
  case REDUCE_L1: ALL(y[i] + fabs(x[i]))
  case REDUCE_L2:
  case REDUCE_SQUARES: ALL(y[i] + x[i] * x[i])
  default: ALL(y[i] + x[i])
  }
}

NOINLINE static void join_longs(const int function, __global const long* restrict x, __global long* restrict y,
                                const int n) {
  switch (function) {
  case REDUCE_MAX: ALL(max(y[i], x[i]))
  case REDUCE_MIN: ALL(min(y[i], x[i]))
  case REDUCE_PROD: ALL((long)((ulong)y[i] * (ulong)x[i]))
  case REDUCE_L1: ALL((long)((ulong)y[i] + (x[i] < 0 ? 0 - (ulong)x[i] : (ulong)x[i])))
  case REDUCE_SQUARES: ALL((long)((ulong)y[i] + (ulong)x[i] * (ulong)x[i]))
  default: ALL((long)((ulong)y[i] + (ulong)x[i]))
  }
}
#undef ALL

static long begin_long(const int function) {
  return function == REDUCE_MAX ? LONG_MIN : function == REDUCE_MIN ? LONG_MAX : function == REDUCE_PROD ? 1 : 0;
}

static long joined_long(const int function, const long a, const long b) {
  if (function == REDUCE_MAX) return max(a, b);
  if (function == REDUCE_MIN) return min(a, b);
  return (long)(function == REDUCE_PROD ? (ulong)a * (ulong)b : (ulong)a + (ulong)b);
}

NOINLINE static long reduced_longs(const int function, __global const long* x, const int n) {
  long all = begin_long(function);
#define EACH(e) \
  { \
    for (int i = 0; i < n; i++) all = (e); \
    return all; \
  }
  switch (function) {
  case REDUCE_MAX: EACH(max(all, x[i]))
  case REDUCE_MIN: EACH(min(all, x[i]))
  case REDUCE_PROD: EACH((long)((ulong)all * (ulong)x[i]))
  case REDUCE_L1: EACH((long)((ulong)all + (x[i] < 0 ? 0 - (ulong)x[i] : (ulong)x[i])))
  case REDUCE_SQUARES: EACH((long)((ulong)all + (ulong)x[i] * (ulong)x[i]))
  default: EACH((long)((ulong)all + (ulong)x[i]))
  }
#undef EACH
}

static float ended_float(const int function, const float v, const float count) {
  return function == REDUCE_MEAN ? v / count : function == REDUCE_L2 ? sqrt(v) : v;
}

static void reduce_elements(__global const reduce_elements_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int first = ticket * d->ticket_units, last = min(first + d->ticket_units, d->units), function = d->operation;
  const int joined = function == REDUCE_MEAN || function > REDUCE_PROD ? 0 : function;
  __global const char* x = AT(const char, banks, d->inp);
  __global char* y = AT(char, banks, d->out);
  __global char* room = scratch;
  __global float* part = (__global float*)(scratch + RUN * 8);
  __global char* total = scratch + 2 * RUN * 8;
  for (int unit = first; unit < last; unit++) {
    const int kept = unit / d->inner_runs, i0 = (unit - kept * d->inner_runs) * RUN;
    const int outer = kept / d->rows, row = kept - outer * d->rows, n = min(RUN, d->inner - i0);
    const long from = outer * d->in_outer + row * d->in_rows + i0, to = outer * d->out_outer + row * d->out_rows + i0;
    if (d->inner == 1) {
      float sum = begin_float(function);
      long whole = begin_long(function);
      for (int a = 0; a < d->across; a++)
        for (int k = 0; k < d->along; k += RUN) {
          const int run = min(RUN, d->along - k);
          __global const char* at = x + (from + a * d->in_across + k) * d->in_size;
          if (d->whole) {
            const long v = reduced_longs(function, as_longs(d->in_type, at, (__global long*)room, run), run);
            whole = joined_long(function, whole, v);
          } else {
            const float v = reduced_floats(function, as_floats(d->in_type, at, (__global float*)room, run), run);
            sum = joined_floats(function, sum, v);
          }
        }
      if (d->whole) {
        ((__global long*)total)[0] = whole;
        longs_as(d->out_type, (__global long*)total, y + to * d->out_size, 1);
      } else {
        ((__global float*)total)[0] = ended_float(function, sum, (float)d->count);
        floats_as(d->out_type, (__global float*)total, y + to * d->out_size, 1);
      }
      continue;
    }
    if (d->whole) {
      __global long* all = (__global long*)total;
      for (int i = 0; i < n; i++) all[i] = begin_long(function);
      for (int a = 0; a < d->across; a++)
        for (int k = 0; k < d->along; k++) {
          __global const char* at = x + (from + a * d->in_across + k * d->in_along) * d->in_size;
          join_longs(function, as_longs(d->in_type, at, (__global long*)room, n), all, n);
        }
      longs_as(d->out_type, all, y + to * d->out_size, n);
    } else {
      __global float* all = (__global float*)total;
      for (int i = 0; i < n; i++) all[i] = part[i] = begin_float(function);
      int steps = 0;
      for (int a = 0; a < d->across; a++)
        for (int k = 0; k < d->along; k++) {
          __global const char* at = x + (from + a * d->in_across + k * d->in_along) * d->in_size;
          join_floats(function, as_floats(d->in_type, at, (__global float*)room, n), part, n);
          if (++steps % 64) continue;
          join_floats(joined, part, all, n);
          for (int i = 0; i < n; i++) part[i] = begin_float(function);
        }
      join_floats(joined, part, all, n);
      for (int i = 0; i < n; i++) all[i] = ended_float(function, all[i], (float)d->count);
      floats_as(d->out_type, all, y + to * d->out_size, n);
      __global float* made = (__global float*)(y + to * d->out_size);
      if (posts && n >= 16) post_row(post, posts, banks, made, kept, 0, 0, i0 / 16, n / 16, 16, 0);
      if (posts && n % 16) post_row(post, posts, banks, made + n / 16 * 16, kept, 0, 0, (i0 + n) / 16, 1, n % 16, 0);
    }
  }
  if (posts && d->inner == 1) {
    const int n = last - first;
    __global float* made = (__global float*)y + first;
    if (n >= 16) post_row(post, posts, banks, made, 0, 0, 0, first / 16, n / 16, 16, 0);
    if (n % 16) post_row(post, posts, banks, made + n / 16 * 16, 0, 0, 0, (first + n) / 16, 1, n % 16, 0);
  }
}
