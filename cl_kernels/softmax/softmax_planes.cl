// Softmax of a dense plain tensor along an axis with others behind it, or its logarithm: [images][count][inner]. A ticket
// is a run of vectors of 16 neighbours along `inner`, each with its own sum.
//
// inp, out     floats; images `count` * `inner` apart
// images, count, inner   sizes
// vectors, ticket_vectors   vectors of an image, of a ticket
// logarithm    1: x - max - log(sum of exp(x - max));  0: exp(x - max) / that sum
//
// Of fewer than 16 neighbours the elements of an image are vectors as they lie: of `inner` vectors in a row each lane has the
// same index in all.
//
// Error relative to the result: exp's 8 roundings and `count` of the sum, each 2^-24, and 2 of the quotient; the
// logarithm's, absolute: the sum's, and 3 roundings of |x - max|. NaN or +infinity makes its column NaN.
#include "rows.clh"

#define MOST_NARROW 15
#define LEAST_COUNT 32  // of fewer, what is done once an image takes longer than lanes that are left over

// What holds for each of `inner` columns, as vectors of the lanes that have their elements.
static void spread_columns(const float* of, const int inner, float16* to) {
  for (int j = 0, c = 0; j < inner; j++) {
    float lanes[16];
    for (int l = 0; l < 16; l++, c = c + 1 == inner ? 0 : c + 1) lanes[l] = of[c];
    to[j] = vload16(0, lanes);
  }
}

// The softmax of one image of fewer than 16 columns.
NOINLINE static void narrow_columns(__global const float* in, __global float* out, const int count, const int inner,
                                    const int logarithm) {
  const int block = 16 * inner;
  const long all = (long)count * inner, whole = all - all % block;
  float16 top[MOST_NARROW], sum[MOST_NARROW];
  float of[MOST_NARROW], lanes[16];
  for (int j = 0; j < inner; j++) top[j] = -INFINITY, sum[j] = 0.0f, of[j] = -INFINITY;
  for (long i = 0; i < whole; i += block)
    for (int j = 0; j < inner; j++) {
      const float16 v = LOAD_LOOSE(in + i + j * 16);
      top[j] = v > top[j] ? v : top[j];
    }
  for (int j = 0, c = 0; j < inner; j++) {
    vstore16(top[j], 0, lanes);
    for (int l = 0; l < 16; l++, c = c + 1 == inner ? 0 : c + 1) of[c] = lanes[l] > of[c] ? lanes[l] : of[c];
  }
  for (long i = whole; i < all; i += inner)
    for (int c = 0; c < inner; c++) of[c] = in[i + c] > of[c] ? in[i + c] : of[c];
  spread_columns(of, inner, top);
  for (long i = 0; i < whole; i += block)
    for (int j = 0; j < inner; j++) {
      const float16 e = post_exp(LOAD_LOOSE(in + i + j * 16) - top[j]);
      sum[j] += e;
      if (!logarithm) STORE_LOOSE(out + i + j * 16, e);
    }
  for (int c = 0; c < inner; c++) of[c] = 0.0f;
  for (int j = 0, c = 0; j < inner; j++) {
    vstore16(sum[j], 0, lanes);
    for (int l = 0; l < 16; l++, c = c + 1 == inner ? 0 : c + 1) of[c] += lanes[l];
  }
  const int rest = (int)(all - whole);
  for (int j = 0, c = 0; j * 16 < rest; j++) {
    const int n = min(16, rest - j * 16);
    const float16 e = post_exp(load_lanes(in + whole + j * 16, 1, n) - top[j]);
    if (!logarithm) store_lanes(out + whole + j * 16, e, n);
    vstore16(e, 0, lanes);
    for (int l = 0; l < n; l++, c = c + 1 == inner ? 0 : c + 1) of[c] += lanes[l];
  }
  for (int c = 0; c < inner; c++) of[c] = logarithm ? log(of[c]) : 1.0f / of[c];
  spread_columns(of, inner, sum);
  for (long i = 0; i < whole; i += block)
    for (int j = 0; j < inner; j++)
      if (logarithm) STORE_LOOSE(out + i + j * 16, LOAD_LOOSE(in + i + j * 16) - top[j] - sum[j]);
      else STORE_LOOSE(out + i + j * 16, LOAD_LOOSE(out + i + j * 16) * sum[j]);
  for (int j = 0; j * 16 < rest; j++) {
    const int n = min(16, rest - j * 16);
    const float16 v = load_lanes((logarithm ? in : (__global const float*)out) + whole + j * 16, 1, n);
    store_lanes(out + whole + j * 16, logarithm ? v - top[j] - sum[j] : v * sum[j], n);
  }
}

static void softmax_planes(__global const softmax_planes_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int count = d->count, inner = d->inner, first = ticket * d->ticket_vectors;
  const int last = min(first + d->ticket_vectors, d->images * d->vectors);
  for (int i = first; i < last; i++) {
    const int n = i / d->vectors, x = (i - n * d->vectors) * 16, lanes = min(16, inner - x);
    __global const float* in = AT(const float, banks, d->inp) + (long)n * count * inner + x;
    __global float* out = AT(float, banks, d->out) + (long)n * count * inner + x;
    if (inner <= MOST_NARROW && count >= LEAST_COUNT) {
      narrow_columns(in, out, count, inner, d->logarithm);
      continue;
    }
    float16 top = -INFINITY, sum = 0.0f;
    for (int k = 0; k < count; k++) {
      const float16 v = load_lanes(in + (long)k * inner, 1, lanes);
      top = v > top ? v : top;
    }
    for (int k = 0; k < count; k++) {
      const float16 e = post_exp(load_lanes(in + (long)k * inner, 1, lanes) - top);
      sum += e;
      if (!d->logarithm) store_lanes(out + (long)k * inner, e, lanes);
    }
    const float16 scale = 1.0f / sum, shift = d->logarithm ? log(sum) : (float16)(0.0f);
    for (int k = 0; k < count; k++) {
      const float16 v = load_lanes((d->logarithm ? in : (__global const float*)out) + (long)k * inner, 1, lanes);
      store_lanes(out + (long)k * inner, d->logarithm ? v - top - shift : v * scale, lanes);
    }
  }
}
#undef MOST_NARROW
#undef LEAST_COUNT
