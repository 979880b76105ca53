// A blocked tensor (b_fs_yx_fsv16) copied into one with another halo or other pitches.
//
// A ticket is a run of rows of one channel block of one image. Fields as in block_fsv16.cl; missing channels are copied
// as the zeros that they are.
#include "fsv16.clh"

static void halo_fsv16(__global const halo_fsv16_desc* d, __global char** banks, __global char* scratch,
                       const int ticket, __global const post_step* post, const int posts) {
  const int strip = ticket % d->strips, block = ticket / d->strips % d->blocks, n = ticket / d->strips / d->blocks;
  const int y1 = min((strip + 1) * d->strip_rows, d->height), width = d->width;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  for (int y = strip * d->strip_rows; y < y1; y++) {
    __global const float* from = in + (long)y * d->in_y;
    __global float* to = out + (long)y * d->out_y;
    for (int x = 0; x < width; x++) STORE16(to + x * 16, LOAD16(from + x * 16));
    if (posts)
      post_row(post, posts, banks, to, n, block, y, 0, width, block == d->blocks - 1 ? d->lanes : 16, 1);
    zero_halo(out, d->out_y, y, 0, width, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
