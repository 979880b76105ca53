// Maxima of windows of a tensor of bytes in blocks of 16 channels (b_fs_yx_fsv16), clipped to the input. Exact.
//
// A ticket is a strip of rows of one channel block of one image, the blocks of a strip side by side.
//
// inp, in_n, in_c, in_y, in_height, in_width, out, out_n, out_c, out_y, height, width   pitches in bytes
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, dilation_x, pad_top, pad_left   of the windows
// blocks, strips, strip_rows   channel blocks, tickets of a block, rows of a ticket
#include "pool_clip.clh"
#include "tile.clh"

static void pool_bytes(__global const pool_bytes_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width, step = d->dilation_x * 16;
  __global const char* in = AT(const char, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global char* out = AT(char, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  const long row_step = (long)d->dilation_y * d->in_y;
  for (int y = strip * d->strip_rows; y < y1; y++) {
    const int at_y = y * d->stride_y - d->pad_top;
    const int2 ky = pool_clip(at_y, d->kernel_y, d->dilation_y, d->in_height);
    __global const char* rows = in + (long)(at_y + ky.x * d->dilation_y) * d->in_y;
    __global uchar16* to = (__global uchar16*)(out + (long)y * d->out_y);
    for (int x = 0; x < width; x++) {
      const int at = x * d->stride_x - d->pad_left;
      const int2 kx = pool_clip(at, d->kernel_x, d->dilation_x, d->in_width);
      __global const char* row = rows + (at + kx.x * d->dilation_x) * 16;
      uchar16 top = 0;
      for (int i = ky.x; i < ky.y; i++, row += row_step)
        for (int j = 0; j < kx.y - kx.x; j++) {
          const uchar16 v = *(__global const uchar16*)(row + j * step);
          top = v > top ? v : top;
        }
      to[x] = top;
    }
  }
}
