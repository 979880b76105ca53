// Softmax of a dense plain tensor along an axis with others behind it, or its logarithm: [images][count][inner]. A ticket
// is a run of vectors of 16 neighbours along `inner`, each with its own sum.
//
// inp, out     floats; images `count` * `inner` apart
// images, count, inner   sizes
// vectors, ticket_vectors   vectors of an image, of a ticket
// logarithm    1: x - max - log(sum of exp(x - max));  0: exp(x - max) / that sum
//
// Error relative to the result: exp's 8 roundings and `count` of the sum, each 2^-24, and 2 of the quotient; the
// logarithm's, absolute: the sum's, and 3 roundings of |x - max|. NaN or +infinity makes its column NaN.
#include "rows.clh"

static void softmax_planes(__global const softmax_planes_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int count = d->count, inner = d->inner, first = ticket * d->ticket_vectors;
  const int last = min(first + d->ticket_vectors, d->images * d->vectors);
  for (int i = first; i < last; i++) {
    const int n = i / d->vectors, x = (i - n * d->vectors) * 16, lanes = min(16, inner - x);
    __global const float* in = AT(const float, banks, d->inp) + (long)n * count * inner + x;
    __global float* out = AT(float, banks, d->out) + (long)n * count * inner + x;
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
