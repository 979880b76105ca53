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
#include "rows.clh"

static void normalize_rows(__global const normalize_rows_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int width = d->width, count = d->parts * width, whole = count / 16, rest = count % 16;
  const int full = width / 16, last = min((ticket + 1) * d->ticket_rows, d->lines);
  for (int line = ticket * d->ticket_rows; line < last; line++) {
    const int n = line / d->rows, y = line - n * d->rows;
    __global const float* in = AT(const float, banks, d->inp) + (long)line * count;
    __global float* out = AT(float, banks, d->out) + (long)line * count;
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
#define PLACE(t) (AT(const float, banks, d->t) + (long)n * d->t##_n + (long)y * d->t##_y + (long)c * d->t##_c)
      __global const float *scale = PLACE(scale), *bias = d->bias == CLGRAPH_NULL ? 0 : PLACE(bias);
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
      post_whole_row(post, posts, banks, out, n, c, y, width);
    }
  }
}
#undef PLACE
