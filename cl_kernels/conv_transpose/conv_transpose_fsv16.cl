// Transposed convolution of blocked tensors (b_fs_yx_fsv16).
//
// An output row is made phase by phase: the pixels phase, phase + stride_x, ... read neighbouring input pixels, so that each
// tap of the kernel that reaches the phase is a 1x1 convolution of an input row. It runs in micro_conv into scratch, further
// taps on top of the first, and the finished phase is spread over the row. Pixels whose tap lies outside of the input are
// left out, because zeros times weights that are not finite would be NaN.
//
// A ticket is a strip of output rows of one output group of one image.
//
// inp, weights, bias, out   weights [group][ky][kx][c / 16][16][nb * 16]; bias (16 floats a block) may be CLGRAPH_NULL
// in_n, in_c, in_y, in_height, in_width   the input from pixel (0, 0) on
// out_n, out_c, out_y, height, width, top, bottom, left, right   the output and its halo
// channels, kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, pad_y, pad_x
// nb, groups, lanes         blocks of a group, groups, channels of the last block
// strips, strip_rows, widest, widths, ids_0, ids_1   tickets of a group, rows of a ticket; instances as in conv_fsv16.cl
// weight_tap                floats of one tap's weights
// low .. stepped            the end of the sums: float_end.clh
//
// Error as in micro_conv.cl, for n = channels times the taps of a phase. Post-operations follow on each row.
#include "float_end.clh"
#include "fsv16.clh"

// Pixels x0 to x1 of nb planes without a tap: the bias.
static void start_pixels(const int nb, __global const float* bias, __global float* to, const int pitch, const int x0,
                         const int x1) {
  for (int b = 0; b < nb; b++)
    for (int x = x0; x < x1; x++)
      STORE16(to + (long)b * pitch + x * 16, bias ? LOAD16(bias + b * 16) : (float16)(0.0f));
}

// One phase of one row: `count` pixels of nb planes, `pitch` floats apart, at `to`.
static void conv_transpose_phase(__global const conv_transpose_fsv16_desc* d, __global const float* in,
                                 __global const float* weights, __global const float* bias, __global float* to,
                                 const int pitch, const int y, const int phase, const int count) {
  const float_end end = FLOAT_END_NONE;
  bool first = true;
  for (int ky = 0; ky < d->kernel_y; ky++) {
    const int at_y = y + d->pad_y - ky * d->dilation_y, row = at_y / d->stride_y;
    if (at_y % d->stride_y || row < 0 || row >= d->in_height) continue;
    for (int kx = 0; kx < d->kernel_x; kx++) {
      const int at_x = phase + d->pad_x - kx * d->dilation_x, shift = at_x / d->stride_x;
      const int x0 = max(0, -shift), x1 = min(count, d->in_width - shift);
      if (at_x % d->stride_x || x0 >= x1) continue;
      __global const float* from = in + (long)row * d->in_y + (long)shift * 16;
      __global const float* wp = weights + (long)(ky * d->kernel_x + kx) * d->weight_tap;
      if (first) {
        start_pixels(d->nb, bias, to, pitch, 0, x0);
        start_pixels(d->nb, bias, to, pitch, x1, count);
      }
      for (int x = x0; x < x1;) {
        const int wide = (int)(d->widths >> (4 * min(min(x1 - x, d->widest), 15))) & 15;
        const int id = (int)((wide < 8 ? d->ids_0 : d->ids_1) >> (8 * (wide & 7))) & 255;
        const int alike = (x1 - x) / wide;
        micro_conv(id, from + x * 16, wp, first ? bias : 0, first ? 0 : to + x * 16, to + x * 16, d->nb, d->channels,
                   0, 1, 1, d->in_c, 0, 16, 16, pitch, pitch, alike, wide * 16, wide * 16, wide * 16, &end,
                   0, wp, 0);
        x += alike * wide;
      }
      first = false;
    }
  }
  if (first) start_pixels(d->nb, bias, to, pitch, 0, count);
}

static void conv_transpose_fsv16(__global const conv_transpose_fsv16_desc* d, __global char** banks,
                                 __global char* scratch, const int ticket, __global const post_step* post,
                                 const int posts) {
  const int strip = ticket % d->strips, g = ticket / d->strips % d->groups, n = ticket / d->strips / d->groups;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width, stride = d->stride_x, block = g * d->nb;
  const int pitch = (width + stride - 1) / stride * 16;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n;
  __global const float* weights =
      AT(const float, banks, d->weights) + (long)g * d->kernel_y * d->kernel_x * d->weight_tap;
  __global const float* bias = 0;
  if (d->bias != CLGRAPH_NULL) bias = AT(const float, banks, d->bias) + block * 16;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  __global float* stage = (__global float*)scratch;
  const float_end ended = FLOAT_END_OF(d), *end = &ended;
  for (int y = strip * d->strip_rows; y < y1; y++) {
    for (int phase = 0; phase < min(stride, width); phase++) {
      const int count = (width - phase + stride - 1) / stride;
      conv_transpose_phase(d, in, weights, bias, stage, pitch, y, phase, count);
      for (int b = 0; b < d->nb; b++) {
        __global float* to = out + (long)b * d->out_c + (long)y * d->out_y + phase * 16;
        for (int x = 0; x < count; x++) {
          float16 sum[1] = {LOAD16(stage + b * pitch + x * 16)};
          END_REGISTERS(sum, 1, end)
          STORE16(to + (long)x * stride * 16, sum[0]);
        }
      }
    }
    for (int b = 0; b < d->nb; b++) {
      __global float* plane = out + (long)b * d->out_c;
      if (posts)
        post_row(post, posts, banks, plane + (long)y * d->out_y, n, block + b, y, 0, width,
                 block + b == d->groups * d->nb - 1 ? d->lanes : 16, 1);
      zero_halo(plane, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
    }
  }
}
