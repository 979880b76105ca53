// Sums, means, extrema and products over some axes of plain tensors of any element types.
//
// Axes outer and rows stay, across and along are reduced, in any order; inner is an axis that stays whose results lie side by
// side, or 1. Then a result is made of runs that lie side by side; else runs of inner are added up. A ticket is a run of units:
// of results, or of runs of one index of outer and rows.
//
// inp, out                    plain tensors;  in_type, out_type (element_types.clh), in_size, out_size: bytes of an element
// domain                      what is computed with: 0 float; where NUMBERS is 1: 1 double, 3 long; of extrema 2 int, 4 bytes
// operation                   0 sum, 1 mean, 2 max, 3 min, 4 prod, 5 l1, 6 l2, 7 sum of squares; of integers as doubles 8 log sum
// rows, across, along, inner  sizes
// in_outer, in_rows, in_across, in_along, in_inner    elements of x from one index to the next; where inner is 1, along: 1
// out_outer, out_rows         of y
// count                       elements that a result is made of
// short_rows                  1: floats, or x of doubles; inner is 1, along at most RUN, and results lie side by side
// inner_runs                  runs of inner;  units, ticket_units: in all, of a ticket, the latter a multiple of 16
//
// The list is applied to results, y seen as [n][x]: n is the unit's index of outer and rows, or 0 where inner is 1.
// Sums are made of sums of up to 64. Error: (64 + count / 64) u sum |x| for sums, relative count u for products, u = 2^-24 of
// floats and 2^-53 of doubles; none for extrema and integers, which wrap; means, roots and logarithms of
// integers are rounded towards zero.
//
// NUMBERS (0): of the domains, those that few networks need, as tile function reduce_numbers.
#include "element_types.clh"
#include "reductions.clh"
#include "reduced_reals.clh"
#include "double_runs.clh"
#include "double_rows.clh"

#ifndef NUMBERS
  #define NUMBERS 0
#endif

#define FUSED(v, all) fma(v, v, all)
REDUCED_REALS(float, LOAD_LOOSE, FUSED, 0)

#ifdef cl_khr_fp64
// A call where the CPU has no fused products.
#define PLAIN(v, all) ((all) + (v) * (v))
#define LOAD_DOUBLES(p) vload16(0, p)
REDUCED_REALS(double, LOAD_DOUBLES, PLAIN, 1)
#endif

#define ALL(e) \
  { \
    for (int i = 0; i < n; i++) y[i] = (e); \
    return; \
  }

// A mean is that of the sums of both halves: neither wraps.
#define REDUCE_LOW 10
#define REDUCE_HIGH 11

NOINLINE static void combine_long(const int function, __global const long* restrict x, __global long* restrict y,
                               const int n) {
  switch (function) {
  case REDUCE_MAX: ALL(max(y[i], x[i]))
  case REDUCE_MIN: ALL(min(y[i], x[i]))
  case REDUCE_PROD: ALL((long)((ulong)y[i] * (ulong)x[i]))
  case REDUCE_L1: ALL((long)((ulong)y[i] + (x[i] < 0 ? 0 - (ulong)x[i] : (ulong)x[i])))
  case REDUCE_SQUARES: ALL((long)((ulong)y[i] + (ulong)x[i] * (ulong)x[i]))
  case REDUCE_LOW: ALL(y[i] + (x[i] & 0xffffffffl))
  case REDUCE_HIGH: ALL(y[i] + (x[i] >> 32))
  default: ALL((long)((ulong)y[i] + (ulong)x[i]))
  }
}

#define EACH(e) \
  { \
    for (int i = 0; i < n; i++) all = (e); \
    return all; \
  }
NOINLINE static long reduced_long(const int function, __global const long* x, const int n) {
  long all = begin_long(function);
  switch (function) {
  case REDUCE_MAX: EACH(max(all, x[i]))
  case REDUCE_MIN: EACH(min(all, x[i]))
  case REDUCE_PROD: EACH((long)((ulong)all * (ulong)x[i]))
  case REDUCE_L1: EACH((long)((ulong)all + (x[i] < 0 ? 0 - (ulong)x[i] : (ulong)x[i])))
  case REDUCE_SQUARES: EACH((long)((ulong)all + (ulong)x[i] * (ulong)x[i]))
  case REDUCE_LOW: EACH(all + (x[i] & 0xffffffffl))
  case REDUCE_HIGH: EACH(all + (x[i] >> 32))
  default: EACH((long)((ulong)all + (ulong)x[i]))
  }
}

#define EXTREMA(T, least, most) \
  static T begin_##T(const int function) { return function == REDUCE_MAX ? least : most; } \
  static T joined_##T(const int function, const T a, const T b) { return function == REDUCE_MAX ? max(a, b) : min(a, b); } \
  static T ended_##T(const int function, const T v, const int count) { return v; } \
  NOINLINE static T reduced_##T(const int function, __global const T* x, const int n) { \
    T all = begin_##T(function); \
    if (function == REDUCE_MAX) EACH(max(all, x[i])) \
    EACH(min(all, x[i])) \
  } \
  NOINLINE static void combine_##T(const int function, __global const T* restrict x, __global T* restrict y, const int n) { \
    if (function == REDUCE_MAX) ALL(max(y[i], x[i])) \
    ALL(min(y[i], x[i])) \
  }
EXTREMA(uchar, 0, UCHAR_MAX)
EXTREMA(char, CHAR_MIN, CHAR_MAX)
EXTREMA(int, INT_MIN, INT_MAX)
#undef ALL
#undef EACH

// combine_rows_T: y[i] = y[i] joined with x[i] of `count` rows, `pitch` elements apart, in order.
#define ROW_BY_ROW(T) \
  static void combine_rows_##T(const int function, __global const T* x, const long pitch, const int count, __global T* y, \
                               const int n) { \
    for (int k = 0; k < count; k++) combine_##T(function, x + k * pitch, y, n); \
  }
ROW_BY_ROW(long)
ROW_BY_ROW(uchar)
ROW_BY_ROW(char)
ROW_BY_ROW(int)
#ifdef cl_khr_fp64
ROW_BY_ROW(double)
#endif
#undef ROW_BY_ROW

// Four vectors, or one, stay in registers while all rows join them.
#define JOIN_ROWS(JOINED) \
  { \
    for (; i + 64 <= n; i += 64) { \
      float16 p = LOAD_LOOSE(y + i), q = LOAD_LOOSE(y + i + 16), r = LOAD_LOOSE(y + i + 32), s = LOAD_LOOSE(y + i + 48); \
      __global const float* v = x + i; \
      for (int k = 0; k < count; k++, v += pitch) { \
        const float16 a = LOAD_LOOSE(v), b = LOAD_LOOSE(v + 16), c = LOAD_LOOSE(v + 32), e = LOAD_LOOSE(v + 48); \
        p = JOINED(a, p), q = JOINED(b, q), r = JOINED(c, r), s = JOINED(e, s); \
      } \
      STORE_LOOSE(y + i, p); \
      STORE_LOOSE(y + i + 16, q); \
      STORE_LOOSE(y + i + 32, r); \
      STORE_LOOSE(y + i + 48, s); \
    } \
    for (; i + 16 <= n; i += 16) { \
      float16 p = LOAD_LOOSE(y + i); \
      __global const float* v = x + i; \
      for (int k = 0; k < count; k++, v += pitch) { \
        const float16 a = LOAD_LOOSE(v); \
        p = JOINED(a, p); \
      } \
      STORE_LOOSE(y + i, p); \
    } \
    if (i < n && safe > 0) { \
      float16 p = load_lanes(y + i, 1, n - i); \
      __global const float* v = x + i; \
      for (; done < safe; done++, v += pitch) { \
        const float16 a = LOAD_LOOSE(v); \
        p = JOINED(a, p); \
      } \
      store_lanes(y + i, p, n - i); \
    } \
    break; \
  }
NOINLINE static void combine_rows_float(const int function, __global const float* x, const long pitch, const int count,
                                        __global float* y, const int n) {
  int i = 0, done = 0;
  // Rows behind whose part of a vector there are others: nothing is read behind the last one.
  const int beyond = 16 - n % 16, safe = (int)max(0l, count - (beyond + pitch - 1) / pitch);
  switch (function) {
  case REDUCE_MAX: JOIN_ROWS(JOIN_GREATER)
  case REDUCE_MIN: JOIN_ROWS(JOIN_LESSER)
  case REDUCE_PROD:
  case REDUCE_L1:
  case REDUCE_L2:
  case REDUCE_SQUARES: break;
  default: JOIN_ROWS(JOIN_SUM)
  }
  for (int k = done; i < n && k < count; k++) combine_float(function, x + k * pitch + i, y + i, n - i);
}
#undef JOIN_ROWS

// Where a unit lies: first elements of x and y, results.
typedef struct {
  long from, to;
  int n;
} reduce_unit;

// n elements at `at`, `pitch` elements apart: where they are, or side by side in `to`.
static __global const char* side_by_side(__global const char* at, const long pitch, const int size, __global char* to,
                                         const int n) {
  if (pitch == 1) return at;
  gather_run(at, pitch, size, to, n);
  return to;
}

// What partial results are joined by.
static int joining(const int function) { return function == REDUCE_MEAN || function > REDUCE_PROD ? REDUCE_SUM : function; }

#define ABREAST 16

// reduce_T: results of a unit, made in the third room of the scratch, where they are left as numbers of type T.
// Extrema of neighbours of type OWN need no conversion, and have no sums whose roundings would add up: they are one run.
#define WALK(T, as, OWN) \
  NOINLINE static __global T* reduce_##T(__global const reduce_elements_desc* d, __global const char* x, \
                                         const reduce_unit u, const int function, __global char* scratch) { \
    __global T* room = (__global T*)scratch; \
    __global T* part = (__global T*)(scratch + RUN * 8); \
    __global T* all = (__global T*)(scratch + 2 * RUN * 8); \
    if (d->inner == 1) { \
      T sum = begin_##T(function); \
      const int whole = d->in_type == OWN && (function == REDUCE_MAX || function == REDUCE_MIN), most = whole ? d->along : RUN; \
      for (int a = 0; a < d->across; a++) \
        for (int k = 0; k < d->along; k += most) { \
          const int run = min(most, d->along - k); \
          __global const char* at = x + (u.from + a * d->in_across + k) * d->in_size; \
          sum = joined_##T(function, sum, reduced_##T(function, as(d->in_type, at, room, run), run)); \
        } \
      all[0] = ended_##T(function, sum, d->count); \
      return all; \
    } \
    if (d->in_type == OWN && d->in_inner == 1 && d->in_along == u.n && ABREAST * u.n <= RUN && \
        (function == REDUCE_MAX || function == REDUCE_MIN)) { \
      /* Rows that lie one behind the other: so many are one row of full vectors, which wait for none of the others. */ \
      for (int i = 0; i < ABREAST * u.n; i++) all[i] = begin_##T(function); \
      for (int a = 0; a < d->across; a++) { \
        __global const T* rows = (__global const T*)(x + (u.from + a * d->in_across) * d->in_size); \
        const int wide = d->along / ABREAST, left = d->along % ABREAST; \
        combine_rows_##T(function, rows, ABREAST * u.n, wide, all, ABREAST * u.n); \
        combine_rows_##T(function, rows + (long)wide * ABREAST * u.n, u.n, left, all, u.n); \
      } \
      for (int r = 1; r < ABREAST; r++) combine_##T(function, all + r * u.n, all, u.n); \
      return all; \
    } \
    const int joined = joining(function); \
    for (int i = 0; i < u.n; i++) all[i] = part[i] = begin_##T(function); \
    const int in_place = d->in_type == OWN && d->in_inner == 1, dense = d->in_inner == 1 && d->in_along == u.n; \
    int steps = 0; \
    for (int a = 0; a < d->across; a++) \
      for (int k = 0, count; k < d->along; k += count) { \
        count = min(64 - steps, d->along - k); \
        if (!in_place) count = dense ? min(count, RUN / u.n) : 1; \
        __global const char* at = x + (u.from + a * d->in_across + k * d->in_along) * d->in_size; \
        at = side_by_side(at, d->in_inner, d->in_size, scratch + 4 * RUN * 8, u.n); \
        __global const T* rows = as(d->in_type, at, room, count * u.n); \
        combine_rows_##T(function, rows, in_place ? d->in_along : u.n, count, part, u.n); \
        steps += count; \
        if (steps < 64) continue; \
        steps = 0; \
        combine_##T(joined, part, all, u.n); \
        for (int i = 0; i < u.n; i++) part[i] = begin_##T(function); \
      } \
    combine_##T(joined, part, all, u.n); \
    for (int i = 0; i < u.n; i++) all[i] = ended_##T(function, all[i], d->count); \
    return all; \
  }
#define AS_THEY_ARE(type, at, room, n) ((__global const uchar*)(at))
#define AS_SIGNED(type, at, room, n) ((__global const char*)(at))
#define AS_INTS(type, at, room, n) ((__global const int*)(at))
WALK(float, as_floats, TYPE_F32)
#ifdef cl_khr_fp64
WALK(double, as_doubles, TYPE_F64)
#endif
WALK(long, as_longs, TYPE_I64)
WALK(uchar, AS_THEY_ARE, d->in_type)
WALK(char, AS_SIGNED, d->in_type)
WALK(int, AS_INTS, TYPE_I32)

// The sums of the low halves wait behind the scratch of a walk.
static __global long* mean_long(__global const reduce_elements_desc* d, __global const char* x, const reduce_unit u,
                                __global char* scratch) {
#ifdef cl_khr_fp64
  // Sums of up to 2^20 integers of 32 bits are exact doubles, and no quotient is rounded to an integer that it is not: it is at
  // least 1 / count away, more than half an ulp of a number below 2^53 / count.
  if (d->in_size <= 4 && d->count <= 1 << 20) {
    __global long* made = reduce_long(d, x, u, REDUCE_SUM, scratch);
    const double by = (double)d->count;
    for (int i = 0; i < u.n; i++) made[i] = (long)((double)made[i] / by);
    return made;
  }
#endif
  __global const long* sums = reduce_long(d, x, u, REDUCE_LOW, scratch);
  __global long* low = (__global long*)(scratch + 3 * RUN * 8);
  for (int i = 0; i < u.n; i++) low[i] = sums[i];
  __global long* all = reduce_long(d, x, u, REDUCE_HIGH, scratch);
  for (int i = 0; i < u.n; i++) all[i] = mean_of_halves(all[i], low[i], d->count);
  return all;
}

// Results `first` to `last` - 1 of short rows, sixteen at a time, in the order in which they lie.
#define REDUCED_ROWS(T, AS, BACK, OWN) \
  static void reduce_rows(__global const reduce_elements_desc* d, __global const char* x, __global char* y, const int first, \
                          const int last, __global char* scratch) { \
    const int function = d->operation, joined = joining(function), n = d->along, converted = d->in_type != OWN; \
    const int most = !converted ? 16 : d->in_rows == n ? min(16, RUN / n) : 1; \
    __global T *room = (__global T*)scratch, *sums = (__global T*)(scratch + RUN * 8), *more = sums + 256; \
    __global T *all = (__global T*)(scratch + 2 * RUN * 8), *part = all + RUN; \
    for (int unit = first, count; unit < last; unit += count) { \
      const int outer = unit / d->rows, row = unit - outer * d->rows; \
      count = min(min(RUN, last - unit), d->rows - row); \
      for (int a = 0; a < d->across; a++) { \
        long from = outer * d->in_outer + row * d->in_rows + a * d->in_across; \
        __global T* sum = a < 64 ? all : part; \
        for (int r = 0, few; r < count; r += few, from += few * d->in_rows) { \
          few = min(most, count - r); \
          __global const T* rows = AS(d->in_type, x + from * d->in_size, room, few * n); \
          __global T* made = a % 64 == 0 ? sum + r : more; \
          /* Nothing is read behind the tensor. */ \
          if (converted || n >= 16 || from + (few - 1) * d->in_rows + 16 <= (long)d->units * d->count) \
            sixteen_rows_##T(function, rows, d->in_rows, n, made, few, sums); \
          else \
            for (int k = 0; k < few; k++) made[k] = reduced_##T(function, rows + k * d->in_rows, n); \
          if (made == more) combine_##T(joined, more, sum + r, few); \
        } \
        if (a >= 64 && (a % 64 == 63 || a + 1 == d->across)) combine_##T(joined, part, all, count); \
      } \
      if (function == REDUCE_MEAN || function == REDUCE_L2) \
        for (int r = 0; r < count; r++) all[r] = ended_##T(function, all[r], d->count); \
      BACK(d->out_type, all, y + (long)unit * d->out_size, count); \
    } \
  }
#if !NUMBERS
REDUCED_ROWS(float, as_floats, floats_as, TYPE_F32)
#elif defined(cl_khr_fp64)
REDUCED_ROWS(double, as_doubles, doubles_as, TYPE_F64)
#endif

#if NUMBERS && defined(cl_khr_fp64)
// Results of units `first` to `last`, each of at most RUN doubles side by side.
static void rows_of_doubles(__global const reduce_elements_desc* d, __global const double* x, __global double* y,
                            const int first, const int last) {
  int outer = first / d->rows, row = first - outer * d->rows;
  for (int unit = first; unit < last; unit++) {
    // Nothing is read behind the tensor.
    const int beyond = (long)(d->units - 1 - unit) * d->along >= 16;
    const double made = reaching_double(d->operation, x + outer * d->in_outer + row * d->in_rows, d->along, beyond);
    y[outer * d->out_outer + row * d->out_rows] = ended_double(d->operation, made, d->count);
    if (++row == d->rows) row = 0, outer++;
  }
}
#endif

static void reduce_elements(__global const reduce_elements_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int first = ticket * d->ticket_units, last = min(first + d->ticket_units, d->units), function = d->operation;
  __global const char* x = AT(const char, banks, d->inp);
  __global char* y = AT(char, banks, d->out);
#if NUMBERS && defined(cl_khr_fp64)
  if (!d->short_rows && d->in_type == TYPE_F64 && d->inner == 1 && d->across == 1 && d->along <= RUN) {
    rows_of_doubles(d, (__global const double*)x, (__global double*)y, first, last);
    return;
  }
#endif
#if !NUMBERS || defined(cl_khr_fp64)
  if (d->short_rows) reduce_rows(d, x, y, first, last, scratch);
#endif
  for (int unit = first; unit < last && !d->short_rows; unit++) {
    const int kept = unit / d->inner_runs, i0 = (unit - kept * d->inner_runs) * RUN;
    const int outer = kept / d->rows, row = kept - outer * d->rows, n = min(RUN, d->inner - i0);
    reduce_unit u;
    u.from = outer * d->in_outer + row * d->in_rows + i0 * d->in_inner, u.to = outer * d->out_outer + row * d->out_rows + i0, u.n = n;
    __global char* to = y + u.to * d->out_size;
    switch (d->domain) {
#if !NUMBERS
    case 0: floats_as(d->out_type, reduce_float(d, x, u, function, scratch), to, n); break;
#else
    case 2: ints_as(d->out_type, reduce_int(d, x, u, function, scratch), to, n); break;
    case 3:
      longs_as(d->out_type, function == REDUCE_MEAN ? mean_long(d, x, u, scratch) : reduce_long(d, x, u, function, scratch),
               to, n);
      break;
    case 4: {
      __global const uchar* made = d->in_type == TYPE_I8
                                       ? (__global const uchar*)reduce_char(d, x, u, function, scratch)
                                       : (__global const uchar*)reduce_uchar(d, x, u, function, scratch);
      for (int i = 0; i < n; i++) to[i] = made[i];
      break;
    }
#endif
#if NUMBERS && defined(cl_khr_fp64)
    case 1: {
      __global double* made = reduce_double(d, x, u, function, scratch);
      if (function == REDUCE_LOG_SUM)
        for (int i = 0; i < n; i++) made[i] = double_log(made[i]);
      doubles_as(d->out_type, made, to, n);
    }
#endif
    }
    if (!posts || d->inner == 1) continue;
    __global float* made = (__global float*)to;
    if (n >= 16) post_row(post, posts, banks, made, kept, 0, 0, i0 / 16, n / 16, 16, 0);
    if (n % 16) post_row(post, posts, banks, made + n / 16 * 16, kept, 0, 0, (i0 + n) / 16, 1, n % 16, 0);
  }
  if (posts && d->inner == 1) {
    const int n = last - first;
    __global float* made = (__global float*)y + first;
    if (n >= 16) post_row(post, posts, banks, made, 0, 0, 0, first / 16, n / 16, 16, 0);
    if (n % 16) post_row(post, posts, banks, made + n / 16 * 16, 0, 0, 0, (first + n) / 16, 1, n % 16, 0);
  }
}
#undef ABREAST
