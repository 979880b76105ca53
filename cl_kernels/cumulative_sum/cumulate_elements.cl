// Running sums or products of dense plain tensors of any element types, [images][count][inner], along count.
//
// Where inner is at most FEW a piece is an image, of which those of at most SHORT elements are summed up several at a time; else
// it is a run of inner, a vector of sums, at all indices of count. A ticket is a run of pieces. Elements are converted to the
// type that is computed with, and back.
//
// inp, out                    dense;  type: of their elements (element_types.clh);  itemsize: bytes of one
// domain                      what is computed with: 0 float, 1 double, 2 int, 3 long
// product                     1: products;  0: sums
// exclusive, reverse          without the element itself; from the end
// count, inner                sizes;  inner_runs: runs of inner;  pieces, ticket_pieces: in all, of a ticket
//
// Error of k elements: k roundings of the domain, relative to the sum of |x| or to the product, then one of the type; none of
// integers, which wrap.
#include "element_types.clh"

#define SHORT 64
#define FEW 8

// OWN: the element type that is T; UNIT: the type in which results wrap.
#define CUMULATE(T, OWN, UNIT, AS, BACK) \
  NOINLINE static void line_##T(const int product, const int reverse, __global const T* restrict x, __global T* made, \
                                const int n) { \
    if (reverse) { \
      UNIT total = (UNIT)made[n]; \
      if (product) \
        for (int i = n - 1; i >= 0; i--) made[i] = (T)(total *= (UNIT)x[i]); \
      else \
        for (int i = n - 1; i >= 0; i--) made[i] = (T)(total += (UNIT)x[i]); \
    } else if (product) { \
      for (int i = 0; i < n; i++) made[i + 1] = (T)((UNIT)made[i] * (UNIT)x[i]); \
    } else { \
      for (int i = 0; i < n; i++) made[i + 1] = (T)((UNIT)made[i] + (UNIT)x[i]); \
    } \
  } \
  /* `lines` lines of `count` elements, `inner` apart; with `carried`, `inner` lines that go on from `totals`. */ \
  NOINLINE static void lines_##T(const int product, const int reverse, const int exclusive, __global const T* restrict x, \
                                 __global T* restrict y, const int lines, const int count, const int inner, const int carried, \
                                 T* totals) { \
    const int step = reverse ? -inner : inner; \
    for (int l = 0, c = 0, from = reverse ? (count - 1) * inner : 0; l < lines; l++) { \
      UNIT total = (UNIT)(carried ? totals[c] : (T)product); \
      for (int k = 0, i = from + c; k < count; k++, i += step) { \
        const UNIT next = product ? total * (UNIT)x[i] : total + (UNIT)x[i]; \
        y[i] = (T)(exclusive ? total : next); \
        total = next; \
      } \
      totals[c] = (T)total; \
      if (++c == inner) c = 0, from += count * inner; \
    } \
  } \
  NOINLINE static void extend_##T(const int product, __global const T* all, __global const T* x, __global T* to, const int n) { \
    if (product) \
      for (int i = 0; i < n; i++) to[i] = (T)((UNIT)all[i] * (UNIT)x[i]); \
    else \
      for (int i = 0; i < n; i++) to[i] = (T)((UNIT)all[i] + (UNIT)x[i]); \
  } \
  NOINLINE static void cumulate_##T(__global const cumulate_elements_desc* d, __global const char* in, __global char* out, \
                                    __global char* scratch, const int n) { \
    __global T* room = (__global T*)scratch; \
    __global T* all = (__global T*)(scratch + RUN * 8); \
    const int type = d->type, count = d->count, reverse = d->reverse, product = d->product, exclusive = d->exclusive; \
    const long step = d->inner * (long)d->itemsize; \
    const int inner = d->inner, each = count * inner; \
    if (inner <= FEW && (inner > 1 || each <= SHORT)) { \
      const int images = each <= SHORT ? n : 1, most = each <= SHORT ? count : RUN / inner; \
      T totals[FEW]; \
      for (int done = 0; done < count; done += most) { \
        const int m = min(most, count - done), elements = images * m * inner; \
        const long at = (reverse ? count - done - m : done) * step; \
        __global T* to = type == OWN ? (__global T*)(out + at) : all; \
        lines_##T(product, reverse, exclusive, AS(type, in + at, room, elements), to, images * inner, m, inner, done > 0, totals); \
        if (type != OWN) BACK(type, all, out + at, elements); \
      } \
      return; \
    } \
    if (d->inner == 1) { \
      T total = (T)product; \
      for (int done = 0; done < count; done += RUN) { \
        const int m = min(RUN, count - done); \
        const long at = (reverse ? count - done - m : done) * step; \
        all[reverse ? m : 0] = total; \
        line_##T(product, reverse, AS(type, in + at, room, m), all, m); \
        total = all[reverse ? 0 : m]; \
        BACK(type, all + (exclusive == reverse), out + at, m); \
      } \
      return; \
    } \
    for (int i = 0; i < n; i++) all[i] = (T)product; \
    if (type == OWN) { \
      /* Each result is made of the one before, where that is. */ \
      __global const T* before = all; \
      for (int k = 0; k < count; k++) { \
        const long at = (reverse ? count - 1 - k : k) * step, last = reverse ? at + step : at - step; \
        __global T* to = (__global T*)(out + at); \
        if (!exclusive || k) extend_##T(product, before, (__global const T*)(in + (exclusive ? last : at)), to, n); \
        else for (int i = 0; i < n; i++) to[i] = all[i]; \
        before = to; \
      } \
      return; \
    } \
    for (int k = 0; k < count; k++) { \
      const long at = (reverse ? count - 1 - k : k) * step; \
      if (exclusive) BACK(type, all, out + at, n); \
      extend_##T(product, all, AS(type, in + at, room, n), all, n); \
      if (!exclusive) BACK(type, all, out + at, n); \
    } \
  }
CUMULATE(float, TYPE_F32, float, as_floats, floats_as)
CUMULATE(int, TYPE_I32, uint, as_ints, ints_as)
CUMULATE(long, TYPE_I64, ulong, as_longs, longs_as)
#ifdef cl_khr_fp64
CUMULATE(double, TYPE_F64, double, as_doubles, doubles_as)
#endif

static void cumulate_elements(__global const cumulate_elements_desc* d, __global char** banks, __global char* scratch,
                              const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_pieces, d->pieces);
  const int each = d->inner <= FEW ? d->count * d->inner : RUN, abreast = each <= SHORT ? RUN / max(1, each) : 1;
  for (int p = ticket * d->ticket_pieces; p < last; p += abreast) {
    const int image = p / d->inner_runs, x = (p - image * d->inner_runs) * RUN;
    const int n = abreast > 1 ? min(abreast, last - p) : min(RUN, d->inner - x);
    const long at = ((long)image * d->count * d->inner + x) * d->itemsize;
    __global const char* in = AT(const char, banks, d->inp) + at;
    __global char* out = AT(char, banks, d->out) + at;
    if (d->domain == 0) cumulate_float(d, in, out, scratch, n);
    else if (d->domain == 2) cumulate_int(d, in, out, scratch, n);
    else if (d->domain == 3) cumulate_long(d, in, out, scratch, n);
#ifdef cl_khr_fp64
    else cumulate_double(d, in, out, scratch, n);
#endif
  }
}
#undef SHORT
#undef FEW
