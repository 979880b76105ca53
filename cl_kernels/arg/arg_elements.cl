// The index of the largest or smallest element along one axis of dense plain tensors [images][count][inner], as a long.
//
// Elements become integers that ascend as they get better (order_keys.clh), a NaN the best of all. Lines, where inner is 1: the
// best key of each run, and its place where it beats those before. Else runs of neighbours, each with its best key and place
// so far, a step along the axis at a time; so are lines of at most NARROW_LINE elements searched, RUN at a time. Long columns of at
// most FEW_COLUMNS neighbours are copied to be lines. A ticket is a run of lines, or of such runs.
//
// inp, out               dense;  type (element_types.clh), itemsize: of elements
// domain                 what is compared: 0 floats, 1 doubles, 2 ints, 3 longs
// smallest, last         whether the smallest is wanted; the last of equal ones, not the first
// count, inner           sizes;  inner_runs: runs of inner
// pieces, ticket_pieces  lines or runs: in all, of a ticket
//
// scratch: a run of 8 bytes an element that is converted, one of what lies apart, one more of best keys, one of places. Exact.
#include "element_types.clh"
#include "order_keys.clh"

#define NARROW_LINE 16
#define FEW_COLUMNS 8
#define LONG_COLUMN 64

// Loops without a branch, which compilers make vectors of. K: of as many bits as T.
#define ARG(T, K, LEAST, MOST, as) \
  NOINLINE static K best_of_##T##s(__global const T* restrict x, const int n, const K flip) { \
    K best = LEAST; \
    for (int i = 0; i < n; i++) best = max(best, key_of_##T(x[i], flip, MOST)); \
    return best; \
  } \
  NOINLINE static int place_of_##T(__global const T* restrict x, const int n, const K flip, const K best, const int last) { \
    K first_at = n, last_at = -1; \
    if (last) \
      for (int i = 0; i < n; i++) last_at = max(last_at, key_of_##T(x[i], flip, MOST) == best ? (K)i : (K)-1); \
    else \
      for (int i = 0; i < n; i++) first_at = min(first_at, key_of_##T(x[i], flip, MOST) == best ? (K)i : (K)n); \
    return (int)(last ? last_at : first_at); \
  } \
  static long arg_line_##T(__global const arg_elements_desc* d, __global const char* line, __global char* scratch) { \
    __global char* room = scratch + RUN * 8; \
    const K flip = (K)(-d->smallest); \
    K best = LEAST; \
    int found = 0; \
    for (int first = 0; first < d->count; first += RUN) { \
      const int n = min(RUN, d->count - first); \
      __global const char* at = line + (long)first * d->inner * d->itemsize; \
      if (d->inner > 1) gather_run(at, d->inner, d->itemsize, room, n); \
      __global const T* x = as(d->type, d->inner > 1 ? room : at, (__global T*)scratch, n); \
      const K here = best_of_##T##s(x, n, flip); \
      if (here < best || (here == best && !d->last)) continue; \
      best = here; \
      found = first + place_of_##T(x, n, flip, best, d->last); \
    } \
    return found; \
  } \
  NOINLINE static void better_##T##s(__global const T* restrict x, __global K* restrict best, __global K* restrict place, \
                                     const int n, const K k, const K flip, const K last) { \
    for (int i = 0; i < n; i++) { \
      const K key = key_of_##T(x[i], flip, MOST); \
      const int better = key > best[i] | (key == best[i] & last); \
      best[i] = better ? key : best[i]; \
      place[i] = better ? k : place[i]; \
    } \
  } \
  static void arg_columns_##T(__global const arg_elements_desc* d, __global const char* from, __global long* to, \
                              __global char* scratch, const int n, const int pitch) { \
    __global char* room = scratch + RUN * 8; \
    __global K* best = (__global K*)(scratch + 2 * RUN * 8); \
    __global K* place = (__global K*)(scratch + 3 * RUN * 8); \
    const long step = (long)d->inner * d->itemsize; \
    for (int i = 0; i < n; i++) best[i] = LEAST, place[i] = 0; \
    for (int k = 0; k < d->count; k++, from += step) { \
      if (pitch > 1) gather_run(from, pitch, d->itemsize, room, n); \
      better_##T##s(as(d->type, pitch > 1 ? room : from, (__global T*)scratch, n), best, place, n, k, (K)(-d->smallest), \
                    d->last); \
    } \
    for (int i = 0; i < n; i++) to[i] = place[i]; \
  }
ARG(float, int, INT_MIN, INT_MAX, as_floats)
ARG(int, int, INT_MIN, INT_MAX, as_ints)
ARG(long, long, LONG_MIN, LONG_MAX, as_longs)
#ifdef cl_khr_fp64
ARG(double, long, LONG_MIN, LONG_MAX, as_doubles)
#endif

static void arg_elements(__global const arg_elements_desc* d, __global char** banks, __global char* scratch, const int ticket,
                         __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces);
  const int narrow = d->inner == 1 && d->count <= NARROW_LINE, few = d->inner <= FEW_COLUMNS && d->count >= LONG_COLUMN;
  for (int p = ticket * d->ticket_pieces, together = 1; p < last; p += together) {
    if (narrow) together = min(RUN, last - p);
    const int image = p / d->inner_runs, x0 = (p - image * d->inner_runs) * RUN;
    const int n = narrow ? together : min(RUN, d->inner - x0);
    __global const char* from = AT(const char, banks, d->inp) + ((long)image * d->count * d->inner + x0) * d->itemsize;
    __global long* to = AT(long, banks, d->out) + (long)image * d->inner + x0;
#define FOUND(T) \
  if (few || (d->inner == 1 && !narrow)) \
    for (int i = 0; i < n; i++) to[i] = arg_line_##T(d, from + i * d->itemsize, scratch); \
  else arg_columns_##T(d, from, to, scratch, n, narrow ? d->count : 1); \
  break;
    switch (d->domain) {
    case 0: FOUND(float)
#ifdef cl_khr_fp64
    case 1: FOUND(double)
#endif
    case 2: FOUND(int)
    case 3: FOUND(long)
    }
  }
}
#undef FOUND
#undef NARROW_LINE
#undef FEW_COLUMNS
#undef LONG_COLUMN
