// Running sums of a dense plain tensor along an axis with others behind it: [images][count][inner]. A ticket is a run of
// vectors of 16 neighbours along `inner`, each with its own sum. WIDE and more of them are added line by line to the line of
// results before; of fewer, four together walk through memory.
//
// inp, out     floats; images `count` * `inner` apart
// images, count, inner   sizes
// vectors, ticket_vectors   vectors of an image, of a ticket
// exclusive    1: y[k] leaves x[k] out
// reverse      1: from the last k down
//
// Error: y[k] adds at most `count` terms one by one: count * 2^-24 * the sum of their |x|.
// WIDE (16), WIDEST (256): vectors whose lines are read one after the other as fast as memory gives them; that leave room in
// the first cache.
#include "rows.clh"

#ifndef WIDE
  #define WIDE 16
#endif
#define WIDEST 256

static void cumulative_sum_planes(__global const cumulative_sum_planes_desc* d, __global char** banks,
                                  __global char* scratch, const int ticket, __global const post_step* post,
                                  const int posts) {
  const int count = d->count, inner = d->inner, exclusive = d->exclusive, first = ticket * d->ticket_vectors;
  const int last = min(first + d->ticket_vectors, d->images * d->vectors);
  const long step = d->reverse ? -(long)inner : (long)inner;
  for (int i = first; i < last;) {
    const int n = i / d->vectors, v = i - n * d->vectors, lanes = min(16, inner - v * 16);
    const long begin = ((long)n * count + (d->reverse ? count - 1 : 0)) * inner + v * 16;
    __global const float* in = AT(const float, banks, d->inp) + begin;
    __global float* out = AT(float, banks, d->out) + begin;
    const int abreast = min(min(last - i, d->vectors - v), WIDEST);
    if (abreast >= WIDE && !exclusive) {
      const int length = min(abreast * 16, inner - v * 16), whole = length & ~15;
      for (int k = 0; k < count; k++, in += step, out += step) {
        __global const float* before = out - step;
        for (int j = 0; j < whole; j += 16) STORE_LOOSE(out + j, (k ? LOAD_LOOSE(before + j) : 0.0f) + LOAD_LOOSE(in + j));
        if (whole < length) {
          const float16 sum = k ? load_lanes(before + whole, 1, length - whole) : 0.0f;
          store_lanes(out + whole, sum + load_lanes(in + whole, 1, length - whole), length - whole);
        }
      }
      i += abreast;
    } else if (i + 4 <= last && v * 16 + 64 <= inner) {
      float16 a = 0.0f, b = 0.0f, c = 0.0f, e = 0.0f;
      for (int k = 0; k < count; k++, in += step, out += step) {
        const float16 p = a + LOAD_LOOSE(in), q = b + LOAD_LOOSE(in + 16);
        const float16 r = c + LOAD_LOOSE(in + 32), s = e + LOAD_LOOSE(in + 48);
        STORE_LOOSE(out, exclusive ? a : p);
        STORE_LOOSE(out + 16, exclusive ? b : q);
        STORE_LOOSE(out + 32, exclusive ? c : r);
        STORE_LOOSE(out + 48, exclusive ? e : s);
        a = p, b = q, c = r, e = s;
      }
      i += 4;
    } else if (lanes == 16) {
      float16 sum = 0.0f;
      for (int k = 0; k < count; k++, in += step, out += step) {
        const float16 next = sum + LOAD_LOOSE(in);
        STORE_LOOSE(out, exclusive ? sum : next);
        sum = next;
      }
      i++;
    } else {
      float16 sum = 0.0f;
      for (int k = 0; k < count; k++, in += step, out += step) {
        const float16 next = sum + load_lanes(in, 1, lanes);
        store_lanes(out, exclusive ? sum : next, lanes);
        sum = next;
      }
      i++;
    }
  }
}
