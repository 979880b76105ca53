// The sum of windows x [N][C][height][width of a window][windows down][windows along] at their places in y [N][C][height][width].
//
// A ticket is a run of rows of y. Where windows are one apart, rows are summed together. Else a row is zeros, then
// the windows' rows that reach it are added; two that make the whole row where windows are two apart are written at once. In
// the order of a window's elements.
//
// inp, out             floats
// rows, in_rows        rows of y in all;  rows of an image
// width                floats of a row
// kernel_y, kernel_x   elements of a window;  stride_y, stride_x; dilation_y, dilation_x; pad_top, pad_left: of the windows
// down, along          windows of an image;  ticket_rows: rows of a ticket
//
// Error: one rounding a sum, as many as a window has elements.
// TOGETHER (4096): floats of the rows that are summed together, in the first cache.
#include "post_tile.clh"

#define TOGETHER 4096

#define BESIDE(a, b) \
  (float16)((a).s0, (b).s0, (a).s1, (b).s1, (a).s2, (b).s2, (a).s3, (b).s3, (a).s4, (b).s4, (a).s5, (b).s5, (a).s6, (b).s6, \
            (a).s7, (b).s7)

// Of windows two apart, n of two neighbouring elements each: their sums with `to`, or in place of what is there.
NOINLINE static void add_pairs(__global const float* restrict even, __global const float* restrict odd, __global float* restrict to,
                               const int add, const int n) {
  int i = 0;
  for (; i + 16 <= n; i += 16) {
    const float16 a = LOAD_LOOSE(even + i), b = LOAD_LOOSE(odd + i), first = BESIDE(a.lo, b.lo), second = BESIDE(a.hi, b.hi);
    STORE_LOOSE(to + 2 * i, add ? LOAD_LOOSE(to + 2 * i) + first : first);
    STORE_LOOSE(to + 2 * i + 16, add ? LOAD_LOOSE(to + 2 * i + 16) + second : second);
  }
  for (; i < n; i++) {
    to[2 * i] = add ? to[2 * i] + even[i] : even[i];
    to[2 * i + 1] = add ? to[2 * i + 1] + odd[i] : odd[i];
  }
}

// `count` rows of an image from y on at `rows` where windows are one apart along them; x: those of its plane. The rows of a
// window's element are added one after the other, as they lie in memory.
NOINLINE static void sum_rows(__global const col2im_rows_desc* d, __global const float* x, __global float* rows, const int y,
                              const int count) {
  const int width = d->width, along = d->along, stride = d->stride_y;
  const long windows = (long)d->down * along;
  for (int i = 0; i < count * width; i++) rows[i] = 0.0f;
  for (int ky = 0; ky < d->kernel_y; ky++)
    for (int kx = 0; kx < d->kernel_x; kx++, x += windows) {
      const int left = kx * d->dilation_x - d->pad_left, first = max(0, -left), n = min(along, width - left) - first;
      for (int i = 0; i < count; i++) {
        const int reach = y + i + d->pad_top - ky * d->dilation_y, at = stride == 1 ? reach : reach / stride;
        if (reach < 0 || at * stride != reach || at >= d->down) continue;
        __global const float* from = x + (long)at * along + first;
        __global float* to = rows + i * width + left + first;
        int k = 0;
        for (; k + 16 <= n; k += 16) STORE_LOOSE(to + k, LOAD_LOOSE(to + k) + LOAD_LOOSE(from + k));
        for (; k < n; k++) to[k] += from[k];
      }
    }
}

// Windows further apart than one.
NOINLINE static void add_run(__global const float* restrict from, __global float* restrict to, const int step, const int n) {
  int i = 0;
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
    if (stride == 1) {
      const int count = min(min(last - r, d->in_rows - y), max(1, TOGETHER / width));
      sum_rows(d, x, row, y, count);
      r += count - 1;
      continue;
    }
    int empty = 1;
    for (int ky = 0; ky < d->kernel_y; ky++) {
      const int reach = y + d->pad_top - ky * d->dilation_y, at = reach / d->stride_y;
      if (reach < 0 || at * d->stride_y != reach || at >= d->down) continue;
      for (int kx = 0; kx < d->kernel_x; kx++) {
        // Windows `first` to `end` put their element kx into the row.
        const int left = kx * d->dilation_x - d->pad_left;
        const int first = left < 0 ? (stride - 1 - left) / stride : 0;
        const int end = min(along, left < width ? (width - 1 - left) / stride + 1 : 0);
        __global const float* from = x + (ky * d->kernel_x + kx) * windows + (long)at * along;
        const int paired = stride == 2 && d->dilation_x == 1 && kx + 1 < d->kernel_x && left >= 0 && left + 2 * end <= width;
        // Pairs that are the whole row need no zeros below them.
        if (empty && !(paired && left == 0 && 2 * end == width))
          for (int i = 0; i < width; i++) row[i] = 0.0f;
        if (paired) {
          add_pairs(from, from + windows, row + left, !(empty && left == 0 && 2 * end == width), end);
          kx++;
        } else if (first < end) {
          add_run(from + first, row + left + first * stride, stride, end - first);
        }
        empty = 0;
      }
    }
    for (int i = 0; empty && i < width; i++) row[i] = 0.0f;
  }
}
#undef BESIDE
#undef TOGETHER
