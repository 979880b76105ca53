// One input of a concatenation along the channels of blocked tensors (b_fs_yx_fsv16), which may begin inside a block.
//
// A ticket is a run of pieces of one block of the result, a piece at most `piece` pixels of a row. Inputs are copied one
// after the other: where one begins inside a block, the lanes before it are there already. The list is applied, and
// lanes that do not exist are zeros, when the last channel of a block has come; the input's missing lanes are zeros.
//
// inp, in_n, in_c, in_y      pixel (0, 0) of channel block 0 of the input; pitches in floats;  in_blocks: its blocks
// out, out_n, out_c, out_y   block `first` of the result
// height, width, top, bottom, left, right   of the result
// shift                      channels of block `first` that are there before
// first, blocks              the result's blocks that this input reaches;  lanes: channels of the last one
// closes                     1: the last of them is complete after this input
// piece, row_pieces, strips, strip_pieces   as in copy_fsv16.cl
#include "fsv16.clh"

// Copy `count` pixels; lanes before `shift` are the last ones of `before`, or stay where that is 0; `now` may be 0, too.
NOINLINE static void shifted_pixels(__global const float* before, __global const float* now, __global float* to,
                                    __global float* pairs, const int count, const int shift) {
  const int16 stay = before ? (int16)(0) : lane_mask(shift);
  for (int i = 0; i < count; i++) {
    STORE16(pairs + i * 32, before ? LOAD16(before + i * 16) : (float16)(0.0f));
    STORE16(pairs + i * 32 + 16, now ? LOAD16(now + i * 16) : (float16)(0.0f));
  }
  for (int i = 0; i < count; i++) {
    const float16 v = vload16(0, pairs + i * 32 + 16 - shift);
    STORE16(to + i * 16, stay ? LOAD16(to + i * 16) : v);
  }
}

static void concat_fsv16(__global const concat_fsv16_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int last = min((strip + 1) * d->strip_pieces, d->height * d->row_pieces), width = d->width;
  const bool complete = block < d->blocks - 1 || d->closes;
  __global const float* in = AT(const float, banks, d->inp) + (long)n * d->in_n;
  __global float* out = AT(float, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  for (int p = strip * d->strip_pieces; p < last; p++) {
    const int y = p / d->row_pieces, x = (p - y * d->row_pieces) * d->piece, count = min(d->piece, width - x);
    __global const float* from = in + (long)y * d->in_y + x * 16;
    __global const float* now = block < d->in_blocks ? from + (long)block * d->in_c : 0;
    __global const float* before = block > 0 ? from + (long)(block - 1) * d->in_c : 0;
    __global float* to = out + (long)y * d->out_y + x * 16;
    if (d->shift)
      shifted_pixels(before, now, to, (__global float*)scratch, count, d->shift);
    else
      for (int i = 0; i < count; i++) STORE16(to + i * 16, LOAD16(now + i * 16));
    if (posts && complete)
      post_row(post, posts, banks, to, n, d->first + block, y, x, count, block == d->blocks - 1 ? d->lanes : 16, 1);
    zero_halo(out, d->out_y, y, x, count, d->height, width, d->top, d->bottom, d->left, d->right);
  }
}
