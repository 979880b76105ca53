// Each pair (a, b) of a row's first features becomes (a cos - b sin, b cos + a sin), those behind stay. The rows are those of
// plain tensors [images][planes][lines][width]; a ticket is a run of them.
//
// inp, out         floats, their rows inp_n, inp_c, inp_y and out_n, ... apart; they may be the same
// cosines, sines   `pairs` floats for each row, angle_n, angle_c, angle_y apart, 0 where rows share them
// planes, lines, rows   of an image, of a plane, in all;  ticket_rows: rows of a ticket
// pairs, width     how many pairs are turned, and features of a row
// neighbours       1: the pairs are features 2 i and 2 i + 1; 0: i and pairs + i
//
// Error: a rounding each of two products and their sum, relative to |a cos| + |b sin|.
#include "rows.clh"

static inline void turn_halves(__global const float* in, __global float* out, __global const float* cosines,
                               __global const float* sines, const int pairs) {
  const int whole = pairs & ~15, lanes = pairs - whole;
  for (int i = 0; i < whole; i += 16) {
    const float16 a = LOAD_LOOSE(in + i), b = LOAD_LOOSE(in + pairs + i);
    const float16 c = LOAD_LOOSE(cosines + i), s = LOAD_LOOSE(sines + i);
    STORE_LOOSE(out + i, a * c - b * s);
    STORE_LOOSE(out + pairs + i, b * c + a * s);
  }
  if (!lanes) return;
  const float16 a = load_lanes(in + whole, 1, lanes), b = load_lanes(in + pairs + whole, 1, lanes);
  const float16 c = load_lanes(cosines + whole, 1, lanes), s = load_lanes(sines + whole, 1, lanes);
  store_lanes(out + whole, a * c - b * s, lanes);
  store_lanes(out + pairs + whole, b * c + a * s, lanes);
}

// The 8 pairs of v, turned.
static inline float16 turned(const float16 v, const float8 c, const float8 s) {
  float16 r;
  r.even = v.even * c - v.odd * s;
  r.odd = v.odd * c + v.even * s;
  return r;
}

static inline void turn_neighbours(__global const float* in, __global float* out, __global const float* cosines,
                                   __global const float* sines, const int pairs) {
  const int whole = pairs & ~7, lanes = pairs - whole;
  for (int i = 0; i < whole; i += 8)
    STORE_LOOSE(out + 2 * i, turned(LOAD_LOOSE(in + 2 * i), vload8(0, cosines + i), vload8(0, sines + i)));
  if (!lanes) return;
  const float16 v = load_lanes(in + 2 * whole, 1, 2 * lanes);
  const float16 c = load_lanes(cosines + whole, 1, lanes), s = load_lanes(sines + whole, 1, lanes);
  store_lanes(out + 2 * whole, turned(v, c.lo, s.lo), 2 * lanes);
}

static void rotation_rows(__global const rotation_rows_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int first = ticket * d->ticket_rows, last = min(first + d->ticket_rows, d->rows), pairs = d->pairs;
  int y = first % d->lines, c = first / d->lines % d->planes, n = first / d->lines / d->planes;
  for (int row = first; row < last; row++) {
    const long angle = (long)n * d->angle_n + (long)c * d->angle_c + (long)y * d->angle_y;
    __global const float* in =
        AT(const float, banks, d->inp) + (long)n * d->inp_n + (long)c * d->inp_c + (long)y * d->inp_y;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)c * d->out_c + (long)y * d->out_y;
    __global const float* cosines = AT(const float, banks, d->cosines) + angle;
    __global const float* sines = AT(const float, banks, d->sines) + angle;
    if (d->neighbours)
      turn_neighbours(in, out, cosines, sines, pairs);
    else
      turn_halves(in, out, cosines, sines, pairs);
    for (int i = 2 * pairs; in != out && i < d->width; i += 16) {
      const int lanes = min(16, d->width - i);
      store_lanes(out + i, load_lanes(in + i, 1, lanes), lanes);
    }
    if (++y < d->lines) continue;
    y = 0;
    if (++c < d->planes) continue;
    c = 0;
    n++;
  }
}
