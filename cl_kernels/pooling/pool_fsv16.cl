// Maximum or average of windows of a blocked tensor (b_fs_yx_fsv16), any kernel, stride, dilation, padding.
//
// A ticket is a strip of rows of one channel block of one image, the blocks of a strip side by side. Windows are clipped to
// the input: a maximum sees no padding, an average divides by the elements inside the input or, with `padded`, inside input
// and padding.
//
// inp, out                         pixel (0, 0) of channel block 0
// in_n, in_c, in_y, out_n, out_c, out_y   pitches in floats
// in_height, in_width, height, width      sizes of input and output;  top, bottom, left, right: the output's halo
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x
// pad_top, pad_left, pad_bottom, pad_right
// average   0: maximum, NaN where the window holds one; 1: average;  padded: count the padding
// blocks, lanes                    channel blocks of an image, channels of the last
// strips, strip_rows               tickets of a block, rows of a ticket
// staged                           1: operations stand in front, and the rows under a window are staged in scratch first
// scale, shift, scale_n, scale_c, scale_l, shift_n, shift_c, shift_l, below, above, pres   as in staging.clh
//
// Error of an average of n: n 2^-24 times the average of absolute values, and one rounding.
#include "fsv16.clh"
#include "pool_clip.clh"
#include "staging.clh"

// Maximum or average (by `average`) of the windows of one output row, whose rows are the first <= i < end of `rows` from
// `in` on, `pitch` floats apart, to `out`. A maximum by comparison skips NaN, which the sum of all elements shows cheaply;
// `exact` keeps them. Returns that sum.
NOINLINE static float16 pool_row(__global const pool_fsv16_desc* d, __global const float* restrict in,
                                 __global float* restrict out, const int rows, const int all_rows, const int pitch,
                                 const int exact) {
  const int width = d->width, in_width = d->in_width, average = d->average, padded = d->padded;
  const int stride = d->stride_x, dilation = d->dilation_x, taps = d->kernel_x, left = d->pad_left;
  const int padded_width = in_width + left + d->pad_right;
  float16 seen = 0.0f;
  for (int x = 0; x < width; x++) {
    const int at = x * stride - left;
    const int2 k = pool_clip(at, taps, dilation, in_width);
    const int count = k.y - k.x;
    __global const float* row = in + (at + k.x * dilation) * 16;
    float16 sum = 0.0f, top = -INFINITY;
    for (int i = 0; i < rows; i++, row += pitch) {
      __global const float* p = row;
      for (int j = 0; j < count; j++, p += dilation * 16) {
        const float16 w = LOAD16(p);
        sum += w;
        top = exact ? (((top >= w) | (top != top)) ? top : w) : (w > top ? w : top);
      }
    }
    seen += sum;
    if (average) {
      const int2 all = pool_clip(at + left, taps, dilation, padded_width);
      sum /= (float16)((float)(padded ? all_rows * (all.y - all.x) : rows * count));
    }
    STORE16(out + x * 16, average ? sum : top);
  }
  return seen;
}

static void pool_fsv16(__global const pool_fsv16_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  const int lanes = block == d->blocks - 1 ? d->lanes : 16;
  const staging_heads heads = STAGING_OF(d);
  __global float* stage = (__global float*)scratch;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;

  for (int y = strip * d->strip_rows; y < y1; y++) {
    const int at = y * d->stride_y - d->pad_top;
    const int2 k = pool_clip(at, d->kernel_y, d->dilation_y, d->in_height);
    const int2 all = pool_clip(at + d->pad_top, d->kernel_y, d->dilation_y, d->in_height + d->pad_top + d->pad_bottom);
    __global const float* from = in + (long)(at + k.x * d->dilation_y) * d->in_y;
    __global float* to = out + (long)y * d->out_y;
    const int rows = k.y - k.x, all_rows = all.y - all.x;
    int pitch = d->dilation_y * d->in_y;
    if (d->staged) {
      for (int r = 0; r < rows; r++)
        stage_row(heads, banks, post, from + (long)r * pitch, stage + r * d->in_width * 16, n, block,
                  at + (k.x + r) * d->dilation_y, 0, d->in_width, 1, lanes);
      from = stage;
      pitch = d->in_width * 16;
    }
    const float16 seen = pool_row(d, from, to, rows, all_rows, pitch, 0);
    if (!d->average && any(seen != seen)) pool_row(d, from, to, rows, all_rows, pitch, 1);
    if (posts > d->pres) post_row(post + d->pres, posts - d->pres, banks, to, n, block, y, 0, width, lanes, 1);
    zero_halo(out, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
