// One input of a concatenation along the channels of tensors of bytes in blocks of 16 channels (b_fs_yx_fsv16). Exact.
//
// A ticket is a run of pieces of one block of the result, a piece at most `piece` pixels of a row. Inputs are copied one
// after the other: where one begins inside a block, the lanes before it are there already.
//
// inp, in_n, in_c, in_y      the input; pitches in bytes;  in_blocks: its blocks
// out, out_n, out_c, out_y   block `first` of the result
// height, width              of the result;  blocks: those that this input reaches
// shift                      channels of the first of them that are there before
// piece, row_pieces, strips, strip_pieces   as in copy_fsv16.cl
#include "bytes.clh"

typedef int4 __attribute__((aligned(1))) any_int4;

// Copy `count` pixels: lanes before `shift` are the last ones of `before`, or stay where that is 0; `now` may be 0, too.
NOINLINE static void shifted_bytes(__global const uchar* before, __global const uchar* now, __global uchar* to,
                                   __global uchar* pairs, const int count, const int shift) {
  for (int i = 0; i < count; i++) {
    __global loose_int4* pair = (__global loose_int4*)(pairs + i * 32);
    pair[0] = before ? *(__global const loose_int4*)(before + i * 16) : (int4)(0);
    pair[1] = now ? *(__global const loose_int4*)(now + i * 16) : (int4)(0);
    // The lanes that stay are those in front of this input's.
    for (int l = 0; !before && l < shift; l++) pairs[i * 32 + 16 - shift + l] = to[i * 16 + l];
  }
  for (int i = 0; i < count; i++) *(__global any_int4*)(to + i * 16) = *(__global const any_int4*)(pairs + i * 32 + 16 - shift);
}

static void concat_bytes(__global const concat_bytes_desc* d, __global char** banks, __global char* scratch,
                         const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int last = min((strip + 1) * d->strip_pieces, d->height * d->row_pieces), width = d->width;
  __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n;
  __global uchar* out = AT(uchar, banks, d->out) + (long)n * d->out_n + (long)block * d->out_c;
  for (int p = strip * d->strip_pieces; p < last; p++) {
    const int y = p / d->row_pieces, x = (p - y * d->row_pieces) * d->piece, count = min(d->piece, width - x);
    __global const uchar* from = in + (long)y * d->in_y + x * 16;
    __global const uchar* now = block < d->in_blocks ? from + (long)block * d->in_c : 0;
    __global const uchar* before = block > 0 ? from + (long)(block - 1) * d->in_c : 0;
    __global uchar* to = out + (long)y * d->out_y + x * 16;
    if (d->shift)
      shifted_bytes(before, now, to, (__global uchar*)scratch, count, d->shift);
    else
      for (int i = 0; i < count; i++) ((__global int4*)to)[i] = ((__global const int4*)now)[i];
  }
}
