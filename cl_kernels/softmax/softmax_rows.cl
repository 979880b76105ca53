// Softmax of each row of a plain tensor, or its logarithm. A ticket is a run of rows.
//
// inp, out     rows of `width` floats, in_y and out_y floats apart, in images in_n and out_n apart
// images, rows, ticket_rows   images, rows of an image, rows of a ticket
// logarithm    1: x - max - log(sum of exp(x - max));  0: exp(x - max) / that sum
//
// Error relative to the result: exp's 8 roundings and width / 16 + 8 of the sum, each 2^-24; the logarithm's, absolute: the
// sum's, and 3 roundings of |x - max|. A row with NaN or +infinity is NaN.
#include "rows.clh"

#define NARROW_ROW 8

// Sixteen rows of at most NARROW_ROW floats that lie one behind the other, a row a lane.
NOINLINE static void sixteen_narrow_rows(__global const float* in, __global float* out, const int width, const int logarithm) {
  float16 v[NARROW_ROW], top = -INFINITY, sum = 0.0f;
  for (int k = 0; k < width; k++) {
    __global const float *a = in + k, *b = a + 4 * width, *c = b + 4 * width, *e = c + 4 * width;
#define FOUR(p) p[0], p[width], p[2 * width], p[3 * width]
    v[k] = (float16)(FOUR(a), FOUR(b), FOUR(c), FOUR(e));
#undef FOUR
    top = v[k] > top ? v[k] : top;
  }
  for (int k = 0; k < width; k++) {
    const float16 left = v[k] - top, e = post_exp(left);
    sum += e;
    v[k] = logarithm ? left : e;
  }
  const float16 shift = logarithm ? log(sum) : 0.0f, scale = 1.0f / sum;
  float lanes[16];
  for (int k = 0; k < width; k++) {
    vstore16(logarithm ? v[k] - shift : v[k] * scale, 0, lanes);
    for (int l = 0; l < 16; l++) out[l * width + k] = lanes[l];
  }
}

static void softmax_rows(__global const softmax_rows_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int width = d->width, whole = width / 16, rest = width % 16, last = min((ticket + 1) * d->ticket_rows, d->images * d->rows);
  const int together = posts == 0 && width <= NARROW_ROW && d->in_y == width && d->out_y == width;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int n = r / d->rows, y = r - n * d->rows;
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)y * d->in_y;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)y * d->out_y;
    if (together && r + 16 <= last && y + 16 <= d->rows) {
      sixteen_narrow_rows(in, out, width, d->logarithm);
      r += 15;
      continue;
    }
    float16 top = -INFINITY, sum = 0.0f, end = -INFINITY;
    for (int i = 0; i < whole; i++) {
      const float16 v = LOAD_LOOSE(in + i * 16);
      top = v > top ? v : top;
    }
    if (rest) {
      end = load_row(in, whole, width, -INFINITY);
      top = end > top ? end : top;
    }
    const float16 high = (float16)(max_lanes(top));
    for (int i = 0; i < whole; i++) {
      const float16 e = post_exp(LOAD_LOOSE(in + i * 16) - high);
      sum += e;
      if (!d->logarithm) STORE_LOOSE(out + i * 16, e);
    }
    const float16 end_e = post_exp(end - high);
    if (rest) sum += end_e;
    const float total = sum_lanes(sum);
    const float16 shift = d->logarithm ? (float16)(log(total)) : (float16)(0.0f), scale = (float16)(1.0f / total);
    if (d->logarithm)
      for (int i = 0; i < whole; i++) STORE_LOOSE(out + i * 16, LOAD_LOOSE(in + i * 16) - high - shift);
    else
      for (int i = 0; i < whole; i++) STORE_LOOSE(out + i * 16, LOAD_LOOSE(out + i * 16) * scale);
    if (rest) store_lanes(out + whole * 16, d->logarithm ? end - high - shift : end_e * scale, rest);
    post_whole_row(post, posts, banks, out, n, 0, y, width);
  }
}
#undef NARROW_ROW
