// Blocks of 16 channels (b_fs_yx_fsv16) to plain [N, C, H, W].
//
// A ticket is a run of rows of one channel block of one image. Without gaps between rows a plane is one row.
//
// inp, in_n, in_c, in_y      pixel (0, 0) of channel block 0; pitches in floats
// out, out_n, out_c, out_y   the output, at any alignment, pixels side by side
// height, width              rows and pixels
// blocks, lanes              channel blocks of an image, channels of the last
// strips, strip_rows         tickets of a block, rows of a ticket
#include "transpose.clh"

static void unblock_fsv16(__global const unblock_fsv16_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  const int lanes = block == d->blocks - 1 ? d->lanes : 16;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * 16 * d->out_c;
  for (int y = strip * d->strip_rows; y < y1; y++)
    for (int x = 0; x < width; x += 16)
      transpose_tile(in + (long)y * d->in_y + x * 16, 16, out + (long)y * d->out_y + x, d->out_c, min(16, width - x),
                     lanes, 0);
}
