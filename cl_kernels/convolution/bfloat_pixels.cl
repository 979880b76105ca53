// Pixels of a blocked tensor (b_fs_yx_fsv16) as bfloat16 with their channels side by side and zeros around them. A ticket
// is a run of rows of the result.
//
// inp, in_n, in_c, in_y   floats from one image, channel block, row to the next
// in_height, in_width     of the input
// out                     [images][height][width][depth]
// height, width, depth    of an image of the result; depth is even
// pad_top, pad_left, take_y, take_x   pixel (y, x) is the input's (y take_y - pad_top, x take_x - pad_left), or zeros
// rows, ticket_rows       rows of all images, and of a ticket
//
// Rounds to the nearest: 2^-8 of a number at most, all of one below 2^-126.
#include "bfloat_pairs.clh"

typedef ushort16 __attribute__((aligned(2))) loose_ushorts;

// Write the first `lanes` of v.
static void store_bfloats(__global ushort* to, const ushort16 v, const int lanes) {
  if (lanes == 16) {
    *(__global loose_ushorts*)to = v;
    return;
  }
  ushort all[16];
  vstore16(v, 0, all);
  for (int l = 0; l < lanes; l++) to[l] = all[l];
}

static void bfloat_pixels(__global const bfloat_pixels_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), depth = d->depth, width = d->width;
  for (int row = ticket * d->ticket_rows; row < last; row++) {
    const int n = row / d->height, y = row % d->height * d->take_y - d->pad_top;
    __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n + (long)y * d->in_y;
    __global ushort* to = AT(ushort, banks, d->out) + (long)row * width * depth;
    const int there = y >= 0 && y < d->in_height;
    for (int c = 0; c < depth; c += 16, in += d->in_c)
      for (int i = 0, x = -d->pad_left; i < width; i++, x += d->take_x) {
        const ushort16 v = there && x >= 0 && x < d->in_width ? bfloats_of(LOAD16(in + x * 16)) : (ushort16)(0);
        store_bfloats(to + (long)i * depth + c, v, min(16, depth - c));
      }
  }
}
