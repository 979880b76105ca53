// The sum of windows x [N][C][height][width of a window][windows down][windows along] at their places in y [N][C][height][width].
//
// A ticket is a run of rows of y. Each is zeros, then the windows' rows that reach it, in the order of a window's elements.
//
// inp, out             floats
// rows, in_rows        rows of y in all;  rows of an image
// width                floats of a row
// kernel_y, kernel_x   elements of a window;  stride_y, stride_x; dilation_y, dilation_x; pad_top, pad_left: of the windows
// down, along          windows of an image;  ticket_rows: rows of a ticket
//
// Error: one rounding a sum, as many as a window has elements.
#include "post_tile.clh"

#define BESIDE(a, b) \
  (float16)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3, (a).s4, (b).s4, (a).s5, (b).s5, (a).s6, (b).s6, \
            (a).s7, (b).s7)

NOINLINE static void add_run(__global const float* restrict from, __global float* restrict to, const int step, const int n) {
  int i = 0;
  if (step == 1) {
    for (; i + 16 <= n; i += 16) STORE_LOOSE(to + i, LOAD_LOOSE(to + i) + LOAD_LOOSE(from + i));
    for (; i + 4 <= n; i += 4) vstore4(vload4(0, to + i) + vload4(0, from + i), 0, to + i);
  }
  // What lies between is added nothing to; behind the last of them there may be nothing.
  if (step == 2)
    for (; i + 16 < n; i += 16) {
      const float16 v = LOAD_LOOSE(from + i), none = 0.0f;
      STORE_LOOSE(to + 2 * i, LOAD_LOOSE(to + 2 * i) + BESIDE(v.lo, none.lo));
      STORE_LOOSE(to + 2 * i + 16, LOAD_LOOSE(to + 2 * i + 16) + BESIDE(v.hi, none.lo));
    }
  for (; i < n; i++) to[i * step] += from[i];
}

static void col2im_rows(__global const col2im_rows_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), width = d->width, along = d->along, stride = d->stride_x;
  const long windows = (long)d->down * along;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int plane = r / d->in_rows, y = r - plane * d->in_rows;
    __global const float* x = AT(const float, banks, d->inp) + (long)plane * d->kernel_y * d->kernel_x * windows;
    __global float* row = AT(float, banks, d->out) + (long)r * width;
    for (int i = 0; i < width; i++) row[i] = 0.0f;
    for (int ky = 0; ky < d->kernel_y; ky++) {
      const int reach = y + d->pad_top - ky * d->dilation_y, at = reach / d->stride_y;
      if (reach < 0 || at * d->stride_y != reach || at >= d->down) continue;
      for (int kx = 0; kx < d->kernel_x; kx++) {
        // Windows `first` to `end` put their element kx into the row.
        const int left = kx * d->dilation_x - d->pad_left;
        const int first = left < 0 ? (stride - 1 - left) / stride : 0;
        const int end = min(along, left < width ? (width - 1 - left) / stride + 1 : 0);
        __global const float* from = x + (ky * d->kernel_x + kx) * windows + (long)at * along;
        if (first < end) add_run(from + first, row + left + first * stride, stride, end - first);
      }
    }
  }
}
#undef BESIDE
