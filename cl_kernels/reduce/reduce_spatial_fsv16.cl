// Sum, mean, maximum or minimum over the pixels of each channel of a blocked tensor (b_fs_yx_fsv16): global pooling.
//
// A ticket is `ticket_blocks` channel blocks of one image. The result is blocked ([N, C, 1, 1]) or plain ([N, C]).
//
// inp, in_n, in_c, in_y, height, width   the input from pixel (0, 0) on, its pitches in floats and its size
// out, out_n, out_c                      floats from one image, channel block of the result to the next
// blocks, lanes                          channel blocks of an image, channels of the last
// ticket_blocks, tickets                 blocks of a ticket, tickets of an image
// extremum  1: maximum, -1: minimum, NaN where there is one;  0: the sum times `mean`
// whole     1: a blocked result, whose missing lanes are written as zeros; 0: a plain one
// top, bottom, left, right               halo of a blocked result
// staged    1: operations stand in front, and each row is staged in scratch first
// scale, shift, scale_n, scale_c, scale_l, shift_n, shift_c, shift_l, below, above, pres   as in staging.clh
//
// Error of a sum of n: n / 4 + 2 roundings of the partial sums.
#include "fsv16.clh"
#include "staging.clh"

// The larger one of each two numbers, NaN where one is.
static inline float16 larger(const float16 v, const float16 w) { return ((v >= w) | (v != v)) ? v : w; }

static void reduce_spatial_fsv16(__global const reduce_spatial_fsv16_desc* d, __global char** banks,
                                 __global char* scratch, const int ticket, __global const post_step* post,
                                 const int posts) {
  const int n = ticket / d->tickets, first = (ticket - n * d->tickets) * d->ticket_blocks;
  const int last = min(first + d->ticket_blocks, d->blocks), width = d->width;
  const staging_heads heads = STAGING_OF(d);
  __global float* stage = (__global float*)scratch;
  for (int block = first; block < last; block++) {
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
    __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
    const int lanes = block == d->blocks - 1 ? d->lanes : 16;
    const float first_sum = d->extremum ? -INFINITY : 0.0f, sign = (float)d->extremum;
    float16 s0 = first_sum, s1 = first_sum, s2 = first_sum, s3 = first_sum, v = 0.0f;
    for (int y = 0; y < d->height; y++) {
      __global const float* row = in + (long)y * d->in_y;
      if (d->staged) {
        stage_row(heads, banks, post, row, stage, n, block, y, 0, width, 1, lanes);
        row = stage;
      }
      int x = 0;
      if (d->extremum) {
        for (; x + 4 <= width; x += 4) {
          s0 = larger(s0, LOAD16(row + x * 16) * sign);
          s1 = larger(s1, LOAD16(row + x * 16 + 16) * sign);
          s2 = larger(s2, LOAD16(row + x * 16 + 32) * sign);
          s3 = larger(s3, LOAD16(row + x * 16 + 48) * sign);
        }
        for (; x < width; x++) s0 = larger(s0, LOAD16(row + x * 16) * sign);
      } else {
        for (; x + 4 <= width; x += 4) {
          s0 += LOAD16(row + x * 16);
          s1 += LOAD16(row + x * 16 + 16);
          s2 += LOAD16(row + x * 16 + 32);
          s3 += LOAD16(row + x * 16 + 48);
        }
        for (; x < width; x++) s0 += LOAD16(row + x * 16);
      }
    }
    if (d->extremum)
      v = larger(larger(s0, s1), larger(s2, s3)) * sign;
    else
      v = ((s0 + s1) + (s2 + s3)) * d->mean;
    if (d->whole)
      STORE16(out, as_float16(as_int16(v) & lane_mask(lanes)));
    else
      store_lanes(out, v, lanes);
    if (posts > d->pres)
      post_row(post + d->pres, posts - d->pres, banks, out, n, block, 0, 0, 1, lanes, d->whole);
    if (d->whole) zero_halo(out, (1 + d->left + d->right) * 16, 0, 0, 1, 1, 1, d->top, d->bottom, d->left, d->right);
  }
}
