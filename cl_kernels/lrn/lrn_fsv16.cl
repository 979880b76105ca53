// Local response normalisation across the channels of a blocked tensor (b_fs_yx_fsv16):
//
//   y[c] = x[c] / (bias + alpha * sum of x[d]^2) ^ beta over channels c - before ... c + after
//
// A ticket is a run of pieces of one channel block of one image, a piece at most `piece` pixels of a row. The squares of
// a pixel's block and its two neighbours lie side by side in scratch, where the windows are unaligned vectors.
//
// inp, in_n, in_c, in_y      pixel (0, 0) of channel block 0; pitches in floats; missing lanes are zeros
// out, out_n, out_c, out_y, height, width, top, bottom, left, right   the output and its halo
// before, after              channels of the window, at most 16 each
// blocks, lanes              channel blocks of an image, channels of the last
// piece, row_pieces, strips, strip_pieces   as in copy_fsv16.cl
// alpha, beta, bias          alpha is already divided by the size of the window
// roots                      1: beta is 3/4, the power two square roots
//
// Error: (beta * (size + 3) + 18) * 2^-24 relative, as in lrn_ref.cl; two square roots and post_pow stay below 16.
#include "fsv16.clh"

static void store_squares(__global const float* from, __global float* squares, const int count) {
  for (int i = 0; i < count; i++) {
    const float16 v = from ? LOAD16(from + i * 16) : (float16)(0.0f);
    STORE16(squares + i * 48, v * v);
  }
}

static void lrn_fsv16(__global const lrn_fsv16_desc* d, __global char** banks, __global char* scratch, const int ticket,
                      __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int last = min((strip + 1) * d->strip_pieces, d->height * d->row_pieces), width = d->width;
  const int lanes = block == d->blocks - 1 ? d->lanes : 16;
  const int16 mask = lane_mask(lanes);
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  __global float* squares = (__global float*)scratch;
  for (int p = strip * d->strip_pieces; p < last; p++) {
    const int y = p / d->row_pieces, x = (p - y * d->row_pieces) * d->piece, count = min(d->piece, width - x);
    __global const float* from = in + (long)y * d->in_y + x * 16;
    __global float* to = out + (long)y * d->out_y + x * 16;
    store_squares(block > 0 ? from - d->in_c : 0, squares, count);
    store_squares(from, squares + 16, count);
    store_squares(block < d->blocks - 1 ? from + d->in_c : 0, squares + 32, count);
    for (int i = 0; i < count; i++) {
      __global const float* window = squares + i * 48 + 16 - d->before;
      float16 sum = 0.0f;
      for (int k = 0; k <= d->before + d->after; k++) sum += vload16(0, window + k);
      const float16 base = fma(sum, (float16)(d->alpha), (float16)(d->bias)), root = sqrt(base);
      const float16 power = d->roots ? root * sqrt(root) : post_pow(base, (float16)(d->beta));
      STORE16(to + i * 16, as_float16(as_int16(LOAD16(from + i * 16) / power) & mask));
    }
    if (posts) post_row(post, posts, banks, to, n, block, y, x, count, lanes, 1);
    zero_halo(out, d->out_y, y, x, count, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
