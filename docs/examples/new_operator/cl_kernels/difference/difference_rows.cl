// Differences of a dense plain tensor along an axis with others behind it: rows of `inner` floats, `count` along the axis.
// A ticket is a run of rows.
//
// inp, out      floats
// rows, count, inner   sizes
// ticket_rows   rows of a ticket
//
// Error: one rounding.
#include "rows.clh"

static void difference_rows(__global const difference_rows_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int inner = d->inner, first = ticket * d->ticket_rows, last = min(first + d->ticket_rows, d->rows);
  for (int row = first; row < last; row++) {
    const long begin = (long)row * inner;
    __global const float* in = AT(const float, banks, d->inp) + begin;
    __global float* out = AT(float, banks, d->out) + begin;
    const int leading = row % d->count == 0;
    for (int i = 0; i < inner; i += 16) {
      const int lanes = min(16, inner - i);
      const float16 x = load_lanes(in + i, 1, lanes);
      store_lanes(out + i, leading ? x : x - load_lanes(in + i - inner, 1, lanes), lanes);
    }
  }
}
