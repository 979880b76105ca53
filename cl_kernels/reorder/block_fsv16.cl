// Plain [N, C, H, W] to blocks of 16 channels (b_fs_yx_fsv16), with the zeros of halo and missing channels.
//
// A ticket is a run of rows of one channel block of one image. Without gaps between rows a plane is one row.
//
// inp, in_n, in_c, in_y      the input, at any alignment, pixels side by side; pitches in floats
// out, out_n, out_c, out_y   pixel (0, 0) of channel block 0
// height, width, top, bottom, left, right   of the output
// blocks, lanes              channel blocks of an image, channels of the last
// strips, strip_rows         tickets of a block, rows of a ticket
#include "fsv16.clh"
#include "transpose.clh"

static void block_fsv16(__global const block_fsv16_desc* d, __global char** banks, __global char* scratch,
                        const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  const int lanes = block == d->blocks - 1 ? d->lanes : 16;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * 16 * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  for (int y = strip * d->strip_rows; y < y1; y++) {
    __global const float* from = in + (long)y * d->in_y;
    __global float* to = out + (long)y * d->out_y;
    for (int x = 0; x < width; x += 16)
      transpose_tile(from + x, d->in_c, to + x * 16, 16, lanes, min(16, width - x), 1);
    if (posts) post_row(post, posts, banks, to, n, block, y, 0, width, lanes, 1);
    zero_halo(out, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
