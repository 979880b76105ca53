// (x - mean) / sqrt(variance + epsilon) * scale + bias for each row of a plain tensor. A ticket is a run of rows.
//
// The tensor is seen as [images][rows][parts][width]; a row that is normalised is all its parts, which lie side by side. Scale and
// bias move along each of these axes as they do, or not at all: layer normalisation has one part, groups of channels have a
// number of each for a part, or a row.
//
// inp, out      rows of parts * width floats, one behind the other
// scale, bias   scale_n, scale_y, scale_c, scale_x, ...: floats from one image, row, part, element to the next, the last 0 or 1;
//               bias may be CLGRAPH_NULL
// rows, parts, width   of an image, a row, a part;  lines, ticket_rows: rows in all, of a ticket
// centred       0: the mean counts as 0, so that the variance is the mean of squares
// epsilon       added to the variance, the mean of squared differences from the mean
//
// Error relative to |result| + |scale|: k / 16 + 16 roundings of 2^-24 times max |x - mean| / deviation, for rows of k inputs
// whose mean is not large against their deviation. The list follows; image, part, row and 16-float vector of a part are n, c,
// y and x.
//
// HALVES (0): inp, out, scale and bias are halves, as tile function normalize_halves. Scratch holds
// `held` rows and, behind them, scale and bias of a part as floats. The result is rounded once more; there is no list.
#include "rows.clh"
#include "element_types.clh"

#ifndef HALVES
  #define HALVES 0
#endif

static void normalize_rows(__global const normalize_rows_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int width = d->width, count = d->parts * width, whole = count / 16, rest = count % 16;
  const int full = width / 16, first = ticket * d->ticket_rows;
  const int last = min(first + d->ticket_rows, d->lines);
#if HALVES
  long scale_before = -1, bias_before = -1;
#endif
  for (int line = first; line < last; line++) {
    const int n = line / d->rows, y = line - n * d->rows;
#if HALVES
    const int held = (line - first) % d->held, all = min(d->held, last - line) * count;
    __global float *in = (__global float*)scratch + held * count, *out = in, *rooms = (__global float*)scratch + d->held * count;
    if (held == 0) halves_to_floats(AT(const ushort, banks, d->inp) + (long)line * count, in, all);
#else
    __global const float* in = AT(const float, banks, d->inp) + (long)line * count;
    __global float* out = AT(float, banks, d->out) + (long)line * count;
#endif
    float16 sum = 0.0f, squares = 0.0f;
    for (int i = 0; d->centred && i < whole; i++) sum += LOAD_LOOSE(in + i * 16);
    if (d->centred && rest) sum += load_row(in, whole, count, 0.0f);
    const float mean = sum_lanes(sum) / count;
    for (int i = 0; i < whole; i++) {
      const float16 v = LOAD_LOOSE(in + i * 16) - mean;
      squares = fma(v, v, squares);
    }
    const float16 end = rest ? load_row(in, whole, count, mean) - mean : (float16)(0.0f);
    squares = fma(end, end, squares);
    const float16 factor = (float16)(1.0f / sqrt(sum_lanes(squares) / count + d->epsilon));
    for (int c = 0; c < d->parts; c++, in += width, out += width) {
#define PLACE(t) ((long)n * d->t##_n + (long)y * d->t##_y + (long)c * d->t##_c)
      const long scale_at = PLACE(scale), bias_at = PLACE(bias);
#if HALVES
      if (scale_at != scale_before) halves_to_floats(AT(const ushort, banks, d->scale) + scale_at, rooms, d->scale_x ? width : 1);
      if (d->bias != CLGRAPH_NULL && bias_at != bias_before)
        halves_to_floats(AT(const ushort, banks, d->bias) + bias_at, rooms + width, d->bias_x ? width : 1);
      scale_before = scale_at;
      bias_before = bias_at;
      __global const float *scale = rooms, *bias = d->bias == CLGRAPH_NULL ? 0 : rooms + width;
#else
      __global const float* scale = AT(const float, banks, d->scale) + scale_at;
      __global const float* bias = d->bias == CLGRAPH_NULL ? 0 : AT(const float, banks, d->bias) + bias_at;
#endif
      const float16 one = (float16)(*scale), shift = (float16)(bias ? *bias : 0.0f);
      const int scales = d->scale_x, shifts = bias && d->bias_x;
      for (int i = 0; i < full; i++) {
        const float16 v = (LOAD_LOOSE(in + i * 16) - mean) * factor * (scales ? LOAD_LOOSE(scale + i * 16) : one);
        STORE_LOOSE(out + i * 16, v + (shifts ? LOAD_LOOSE(bias + i * 16) : shift));
      }
      if (width % 16) {
        const float16 v = (load_row(in, full, width, mean) - mean) * factor;
        const float16 scaled = v * (scales ? load_row(scale, full, width, 0.0f) : one);
        store_row(out, full, width, scaled + (shifts ? load_row(bias, full, width, 0.0f) : shift));
      }
#if !HALVES
      post_whole_row(post, posts, banks, out, n, c, y, width);
#endif
    }
#if HALVES
    if (held == d->held - 1 || line == last - 1)
      floats_to_halves((__global const float*)scratch, AT(ushort, banks, d->out) + (long)(line - held) * count, (held + 1) * count);
#endif
  }
}
#undef PLACE
