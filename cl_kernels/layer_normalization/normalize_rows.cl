// (x - mean) / sqrt(variance + epsilon) * scale + bias for each row of a plain tensor. A ticket is a run of rows.
//
// inp, out      rows of `width` floats, in_y and out_y floats apart
// scale, bias   `width` floats each; bias may be CLGRAPH_NULL
// rows, ticket_rows   rows in all, of a ticket
// centred       0: the mean counts as 0, so that the variance is the mean of squares
// epsilon       added to the variance, the mean of squared differences from the mean
//
// Error relative to |result| + |scale|: width / 16 + 16 roundings of 2^-24 times max |x - mean| / deviation, for inputs whose
// mean is not large against their deviation.
#include "rows.clh"

static void normalize_rows(__global const normalize_rows_desc* d, __global char** banks, __global char* scratch,
                           const int ticket, __global const post_step* post, const int posts) {
  const int width = d->width, whole = width / 16, rest = width % 16, last = min((ticket + 1) * d->ticket_rows, d->rows);
  __global const float *scale = AT(const float, banks, d->scale), *bias = 0;
  if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias);
  for (int y = ticket * d->ticket_rows; y < last; y++) {
    __global const float* in = AT(const float, banks, d->inp) + (long)y * d->in_y;
    __global float* out = AT(float, banks, d->out) + (long)y * d->out_y;
    float16 sum = 0.0f, squares = 0.0f;
    for (int i = 0; d->centred && i < whole; i++) sum += LOAD_LOOSE(in + i * 16);
    if (d->centred && rest) sum += load_row(in, whole, width, 0.0f);
    const float mean = sum_lanes(sum) / width;
    for (int i = 0; i < whole; i++) {
      const float16 v = LOAD_LOOSE(in + i * 16) - mean;
      squares = fma(v, v, squares);
    }
    const float16 end = rest ? load_row(in, whole, width, mean) - mean : (float16)(0.0f);
    squares = fma(end, end, squares);
    const float16 factor = (float16)(1.0f / sqrt(sum_lanes(squares) / width + d->epsilon));
    for (int i = 0; i < whole; i++) {
      const float16 v = (LOAD_LOOSE(in + i * 16) - mean) * factor * LOAD_LOOSE(scale + i * 16);
      STORE_LOOSE(out + i * 16, bias ? v + LOAD_LOOSE(bias + i * 16) : v);
    }
    if (rest) {
      const float16 v = end * factor * load_row(scale, whole, width, 0.0f);
      store_row(out, whole, width, bias ? v + load_row(bias, whole, width, 0.0f) : v);
    }
    post_whole_row(post, posts, banks, out, 0, y, width);
  }
}
