// Maximum or average of windows of a blocked tensor (b_fs_yx_fsv16), any kernel, stride, dilation, padding.
//
// A ticket is a strip of rows of one channel block of one image. Windows are clipped to the input: a maximum sees no
// padding, an average divides by the elements inside the input or, with `padded`, inside input and padding.
//
// inp, out                         pixel (0, 0) of channel block 0
// in_n, in_c, in_y, out_n, out_c, out_y   pitches in floats
// in_height, in_width, height, width      sizes of input and output;  top, bottom, left, right: the output's halo
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x
// pad_top, pad_left, pad_bottom, pad_right
// average   0: maximum, NaN where the window holds one; 1: average;  padded: count the padding
// blocks, lanes                    channel blocks of an image, channels of the last
// strips, strip_rows               tickets of a block, rows of a ticket
//
// Error of an average of n: n 2^-24 times the average of absolute values, and one rounding.
#include "fsv16.clh"

// The window elements first <= k < end with 0 <= at + k * dilation < size.
static int2 pool_clip(const int at, const int taps, const int dilation, const int size) {
  if (dilation == 1) return (int2)(max(0, -at), min(taps, size - at));
  return (int2)(at < 0 ? (dilation - 1 - at) / dilation : 0,
                size > at ? min(taps, (size - at + dilation - 1) / dilation) : 0);
}

static void pool_fsv16(__global const pool_fsv16_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int y1 = min((strip + 1) * d->strip_rows, d->height);
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  const int average = d->average, width = d->width, step_x = d->dilation_x * 16;

  for (int y = strip * d->strip_rows; y < y1; y++) {
    const int at_y = y * d->stride_y - d->pad_top;
    const int2 ky = pool_clip(at_y, d->kernel_y, d->dilation_y, d->in_height);
    const int2 all_y = pool_clip(at_y + d->pad_top, d->kernel_y, d->dilation_y,
                                 d->in_height + d->pad_top + d->pad_bottom);
    for (int x = 0; x < width; x++) {
      const int at_x = x * d->stride_x - d->pad_left;
      const int2 kx = pool_clip(at_x, d->kernel_x, d->dilation_x, d->in_width);
      float16 v = average ? (float16)(0.0f) : (float16)(-INFINITY);
      for (int i = ky.x; i < ky.y; i++) {
        __global const float* p = in + (long)(at_y + i * d->dilation_y) * d->in_y + at_x * 16;
        if (average)
          for (int j = kx.x; j < kx.y; j++) v += LOAD16(p + j * step_x);
        else
          for (int j = kx.x; j < kx.y; j++) {
            const float16 w = LOAD16(p + j * step_x);
            v = ((v >= w) | (v != v)) ? v : w;
          }
      }
      if (average) {
        const int2 all_x = pool_clip(at_x + d->pad_left, d->kernel_x, d->dilation_x,
                                     d->in_width + d->pad_left + d->pad_right);
        const int2 by_y = d->padded ? all_y : ky, by_x = d->padded ? all_x : kx;
        v /= (float16)((float)((by_y.y - by_y.x) * (by_x.y - by_x.x)));
      }
      if (block == d->blocks - 1) v = as_float16(as_int16(v) & lane_mask(d->lanes));
      STORE16(out + (long)y * d->out_y + x * 16, v);
    }
    if (posts)
      post_row(post, posts, banks, out + (long)y * d->out_y, n, block, y, 0, width,
               block == d->blocks - 1 ? d->lanes : 16, 1);
    zero_halo(out, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
