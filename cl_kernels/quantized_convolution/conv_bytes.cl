// Convolution of bytes in blocks of 16 channels (b_fs_yx_fsv16), any kernel, stride, dilation and padding, exact sums.
//
// A ticket is a range of chunks by a range of output groups of one image. A chunk is a part of one output row; a group is
// `nb` blocks of 16 output channels. Windows that reach beyond the input read the zero point: then the ticket's chunks are
// whole rows, or a part of the only one, and their input with the zero point around it is copied into the worker's scratch
// (`staged`).
//
// inp, weights, start, scale, bias, out
// res, by, plus, by_after, plus_after, entries, largest, smallest   or CLGRAPH_NULL
// start                     with a zero_point that is not CLGRAPH_NULL less that times what stands there
// in_n, in_g, in_c, in_y   bytes from one image, convolution group, block, row of the input to the next
// in_blocks, in_height, in_width   of the input of one convolution group, read where it is staged
// pad_top, pad_left, pad    staged rows and pixels in front of the input, and what they hold, four times, or zero_point does
// dilation_y, dilation_x, stride_y, stride_x, kernel_y, kernel_x   of the windows
// in_x                      bytes of an input pixel: 16, or of one that has its channels side by side
// spread                    1: pixels of the result are whole blocks, but not side by side
// out_n, out_c, out_y, out_x, res_n, res_c, res_y, res_x   pitches in elements of the result and in bytes of res
// words                     of a pixel of one convolution group
// height, width             of the output
// nb, blocks, groups, group_groups   as in conv_fsv16.cl;  lanes: channels of the last block
// chunks, row_chunks, chunk_width, ticket_chunks, ticket_groups, spans, batch_tickets, channel_major   as in conv_fsv16.cl
// widths, ids_0, ids_1      as in conv_fsv16.cl
// weight_group              bytes of one group's weights
// apart                     bytes of scratch for a list of words (saturating.clh), 0 with VNNI
// sums                      bytes of scratch for a sum of each pixel of a ticket, 0 where weight_shift is
// weight_shift, tail        what is added to each weight; the bits of the last word of a pixel that are channels
// fetched                   bytes of the next group's that a word of a chunk prefetches; 0: none
// mode, first .. high       as in micro_bytes.cl;  itemsize: bytes of an element of the result
// entries                   256 bytes, which the bytes of the result are the places of
// listed, last              1: bytes of what the list of post-operations leaves of floats, nearest(v / last) + zero
// steps, zeros              step and zero point of mode 5
// out                       in mode 4 two ints for each of out_c channels: the least and the largest int, which become the
//                           largest and the smallest sum
#include "bytes.clh"
#include "conv_chunks.clh"
#include "post_tile.clh"
#include "saturating.clh"

// Pixels of a block of channels that what is applied behind the sums walks over.
#define AT_ONCE 64

// Copy `rows` rows from row `first` on, of every block, with `pitch` pixels each from pixel -left on, as words.
NOINLINE static void stage_bytes(__global const conv_bytes_desc* d, __global char** banks, __global const uchar* in,
                                 __global uchar* to, const int first, const int rows, const int left, const int pitch) {
  const block_words pad = words_of_byte(d->zero_point == CLGRAPH_NULL ? d->pad & 255 : *AT(const uchar, banks, d->zero_point));
  const int front = max(left, 0), before = max(-left, 0);
  for (int b = 0; b < d->in_blocks; b++)
    for (int r = 0; r < rows; r++) {
      const int y = first + r, width = y < 0 || y >= d->in_height ? 0 : min(d->in_width - before, pitch - front);
      __global block_words* row = (__global block_words*)to + ((long)b * rows + r) * pitch;
      __global const uchar* from = in + (long)b * d->in_c + (long)y * d->in_y + (long)before * d->in_x;
      int x = 0;
      for (; x < (width > 0 ? front : 0); x++) row[x] = pad;
      for (int i = 0; i < width; i++, x++) row[x] = words_of(from + (long)i * d->in_x);
      for (; x < pitch; x++) row[x] = pad;
    }
}

// Copy `count` pixels of `bytes` each, `from_x` and `to_x` bytes apart.
NOINLINE static void copy_pixels(__global const uchar* from, __global uchar* to, const int count, const long to_x,
                                 const int bytes, const int from_x) {
  for (int i = 0; i < count; i++, from += from_x, to += to_x) {
    int k = 0;
    for (; k + 16 <= bytes; k += 16) *(__global loose_int4*)(to + k) = *(__global const loose_int4*)(from + k);
    for (; k < bytes; k++) to[k] = from[k];
  }
}

// `words` words, up to a block of them.
static inline int4 some_words(__global const uchar* p, const int words) {
  if (words == BLOCK_WORDS) return *(__global const loose_int4*)p;
  __global const int* v = (__global const int*)p;
  return (int4)(v[0], words > 1 ? v[1] : 0, words > 2 ? v[2] : 0, 0);
}

// Write `shift` times the sum of the window of each of `count` pixels, four at a time, the first one's at p, the others `stride`
// bytes apart; words, kernel_y, kernel_x, in_c, in_y, in_x as in micro_bytes.cl. tail: the bits of the last word that are
// channels; whole: blocks are read to their end.
NOINLINE static void sum_windows_of(__global const uchar* p, __global int* to, const int count, const int stride,
                                    const int words, const int tail, const int whole, const int kernel_y, const int kernel_x,
                                    const int in_c, const int in_y, const int in_x, const int shift) {
  const int blocks = (words + BLOCK_WORDS - 1) / BLOCK_WORDS, left = words - (blocks - 1) * BLOCK_WORDS;
  const int4 order = (int4)(0, 1, 2, 3), ones = (int4)(0x01010101);
  const int4 last = order < (int4)(left - 1) ? ones : order == (int4)(left - 1) ? ones & (int4)(tail) : (int4)(0);
  for (int i = 0; i < count; i += 4, p += 4L * stride, to += 4) {
    const int more = min(count - i, 4) - 1;
    const long second = min(1, more) * stride, third = min(2, more) * stride, fourth = more * stride;
    int16 sums = 0;
    for (int b = 0; b < blocks; b++) {
      const int4 one = b < blocks - 1 ? ones : last;
      const int16 taken = (int16)(one, one, one, one);
      const int has = b < blocks - 1 || whole ? BLOCK_WORDS : left;
      for (int ky = 0; ky < kernel_y; ky++)
        for (int kx = 0; kx < kernel_x; kx++) {
          __global const uchar* at = p + (long)b * in_c + (long)ky * in_y + (long)kx * in_x;
          const int16 v = stride == 4 * BLOCK_WORDS && more == 3
                              ? *(__global const loose_int16*)at
                              : (int16)(some_words(at, has), some_words(at + second, has), some_words(at + third, has),
                                        some_words(at + fourth, has));
          sums = add_words(sums, v, taken);
        }
    }
    const int8 pairs = sums.even + sums.odd;
    const int4 all = (pairs.even + pairs.odd) * (int4)(shift);
    to[0] = all.x;
    if (more > 0) to[1] = all.y;
    if (more > 1) to[2] = all.z;
    if (more > 2) to[3] = all.w;
  }
}

static void conv_bytes(__global const conv_bytes_desc* d, __global char** banks, __global char* scratch, const int ticket,
                       __global const post_step* post, const int posts) {
  const int n = ticket / d->batch_tickets, within = ticket - n * d->batch_tickets;
  const int tiers = d->batch_tickets / d->spans;
  const int tier = d->channel_major ? within / d->spans : within % tiers;
  const int span = d->channel_major ? within - tier * d->spans : within / tiers;
  const int last_group = min((tier + 1) * d->ticket_groups, d->groups);
  const int first_chunk = span * d->ticket_chunks, last_chunk = min(first_chunk + d->ticket_chunks, d->chunks);
  const int row_chunks = d->row_chunks, width = d->width, mode = d->mode, listed = d->listed;
  const int first_y = first_chunk / row_chunks, last_y = (last_chunk - 1) / row_chunks;
  const int rows = (last_y - first_y) * d->stride_y + (d->kernel_y - 1) * d->dilation_y + 1;
  // Of one row no more than the chunks' part is staged.
  const int one = d->staged && first_y == last_y, bytes = 4 * BLOCK_WORDS;
  const int first_x = chunk_start(first_chunk - first_y * row_chunks, row_chunks, d->chunk_width, width);
  const int left_x = one ? first_x : 0;
  const int right_x = one ? chunk_start(last_chunk - first_y * row_chunks, row_chunks, d->chunk_width, width) : width;
  const int pitch = (right_x - left_x - 1) * d->stride_x + (d->kernel_x - 1) * d->dilation_x + 1;
  const int stride_x = d->stride_x * (d->staged ? bytes : d->in_x);
  const int size = d->itemsize, looks_up = d->entries != CLGRAPH_NULL;
  const int computed = d->zero_point != CLGRAPH_NULL;
  __global float* scales = (__global float*)(scratch + END_BYTES);
  __global int* starts = (__global int*)(scales + d->nb * BLOCK_SCALES);
  __global uchar* beside = (__global uchar*)starts + (computed ? d->nb * 64 : 0);
  __global int2* list = (__global int2*)(beside + (listed || d->out_x != 16 ? d->nb * 16 * 64 : 0));
  __global uchar* stage = (__global uchar*)list + d->apart + d->sums;
  __global int* sums = (__global int*)((__global uchar*)list + d->apart);
  __global const byte_end* end = END_WITH(d, banks, scratch);
  byte_table table;
  if (looks_up) table = table_of(AT(const uchar, banks, d->entries));
  const channel_numbers numbers = CHANNEL_NUMBERS(d, banks);

  for (int g = tier * d->ticket_groups, staged = -1, summed = -1; g < last_group; g++) {
    const int block = g * d->nb, nb = min(d->nb, d->blocks - block), which = g / d->group_groups;
    const int apart = listed || (d->out_x != 16 && (posts || looks_up || (d->lanes < 16 && !d->spread && block + nb == d->blocks)));
    // Sums stand where their floats will until there are enough of them: few numbers of channels are loaded then.
    const int sums_first = !apart && d->out_x == 16 && d->res == CLGRAPH_NULL && ends_in_floats(mode, end);
    const int later = d->out_x == 16 && (looks_up || sums_first || (posts && !listed));
    __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n + (long)which * d->in_g;
    int in_c = d->in_c, in_y = d->in_y, above = 0;
    if (d->staged) {
      if (which != staged) stage_bytes(d, banks, in, stage, first_y * d->stride_y - d->pad_top, rows,
                                          d->pad_left - left_x * d->stride_x, pitch);
      staged = which;
      in = stage;
      in_y = pitch * bytes;
      in_c = rows * in_y;
      above = first_y * d->stride_y;
    }
    if (d->weight_shift && which != summed) {
      __global int* to = sums;
      for (int chunk = first_chunk; chunk < last_chunk; chunk++) {
        const int y = chunk / row_chunks, part = chunk - y * row_chunks;
        const int x0 = chunk_start(part, row_chunks, d->chunk_width, width);
        const int count = chunk_start(part + 1, row_chunks, d->chunk_width, width) - x0;
        sum_windows_of(in + (long)(y * d->stride_y - above) * in_y + (long)(x0 - left_x) * stride_x, to, count, stride_x,
                       d->words, d->tail, d->staged || d->in_x == bytes, d->kernel_y, d->kernel_x, in_c,
                       in_y * d->dilation_y, bytes * d->dilation_x, d->weight_shift);
        to += count;
      }
      summed = which;
    }
    __global const int* more = d->weight_shift ? sums : 0;
    __global const uchar* res = 0;
    if (d->res != CLGRAPH_NULL) res = AT(const uchar, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
    __global uchar* out = AT(uchar, banks, d->out) + ((long)n * d->out_n + (long)block * d->out_c) * size;
    __global const char* wp = AT(const char, banks, d->weights) + (long)g * d->weight_group;
    __global const int* start = AT(const int, banks, d->start) + block * 16;
    if (computed) {
      const int16 less = (int16)(-(int)*AT(const uchar, banks, d->zero_point));
      for (int b = 0; b < nb; b++) *(__global int16*)(starts + b * 16) = *(__global const int16*)(start + b * 16) * less;
      start = starts;
    }
    write_scales(numbers, scales, block, nb, mode, end);
#ifdef SATURATING
    const int plain = list_words(wp, d->nb, d->words, d->kernel_y, d->kernel_x, in_c, in_y * d->dilation_y,
                                 bytes * d->dilation_x, list);
    __global const int2* ordered = plain < d->words * d->kernel_y * d->kernel_x ? list : 0;
#else
    const int plain = 0;
    __global const int2* ordered = 0;
#endif
    __global const char* ahead = d->fetched && g + 1 < last_group ? wp + d->weight_group : wp;
    for (int chunk = first_chunk, done = first_x; chunk < last_chunk;) {
      const int y = chunk / row_chunks, part = chunk - y * row_chunks, row_end = min(row_chunks, part + last_chunk - chunk);
      const int x0 = chunk_start(part, row_chunks, d->chunk_width, width);
      chunk_run run = chunks_alike(x0, chunk_start(row_end, row_chunks, d->chunk_width, width), row_chunks, d->chunk_width,
                                   width);
      // What is done chunk by chunk has one; what waits for several is still in the first-level cache then.
      run.count = min(run.count, apart ? 1 : later ? (AT_ONCE - 1) / run.width + 1 : run.count);
      const int x1 = x0 + run.count * run.width;
      for (int x = x0; x < x0 + run.width;) {
        const int most = min(x0 + run.width - x, 15), wide = (int)(d->widths >> (4 * most)) & 15;
        const int id = (int)((wide < 8 ? d->ids_0 : d->ids_1) >> (8 * (wide & 7))) & 255;
        __global uchar* to = out + ((long)y * d->out_y + (long)x * d->out_x) * size;
        micro_bytes(id, in + (long)(y * d->stride_y - above) * in_y + (long)(x - left_x) * stride_x, wp, start, scales,
                    res ? res + (long)y * d->res_y + (long)x * d->res_x : 0, apart ? beside : to, nb, d->words,
                    d->kernel_y, d->kernel_x, in_c, in_y * d->dilation_y, bytes * d->dilation_x, stride_x,
                    apart ? 256 : d->out_c, apart ? 16 : d->out_x, d->res_c, d->res_x, sums_first ? 6 : mode, end, ahead,
                    ahead == wp ? 0 : d->fetched, ordered, plain, more ? more + x - x0 : 0, run.count, run.width);
        for (int b = 0; posts && apart && b < nb; b++) {
          __global float* row = (__global float*)beside + b * 256;
          post_row(post, posts, banks, row, n, block + b, y, x, wide, block + b == d->blocks - 1 ? d->lanes : 16, 1);
          if (end->noting == 2) keep_extremes(row, wide, scales + b * BLOCK_SCALES);
        }
        for (int b = 0; listed && b < nb; b++) {
          __global float* row = (__global float*)beside + b * 256;
          quantize_row(row, d->out_x == 16 ? to + (long)b * d->out_c : (__global uchar*)row, wide, d->last, d->zero, d->low,
                       d->high);
        }
        for (int b = 0; looks_up && d->out_x != 16 && b < nb; b++) {
          __global uchar* row = beside + b * (listed ? 1024 : 256);
          look_up_row(row, row, wide, table);
        }
        for (int b = 0; apart && d->out_x != 16 && b < nb; b++)
          copy_pixels(beside + b * (size == 4 || listed ? 1024 : 256), to + (long)b * d->out_c * size, wide,
                      (long)d->out_x * size, size * (block + b == d->blocks - 1 && !d->spread ? d->lanes : 16), size * 16);
        x += wide;
      }
      chunk += run.count;
      if (more) more += x1 - x0;
      if (ahead != wp) ahead += (long)run.count * d->fetched * d->words * d->kernel_y * d->kernel_x;
      // Several chunks at once: one is little more than the four vectors that are looked up together, and short for a list.
      if (!later || (x1 - done < AT_ONCE && chunk < last_chunk && part + run.count < row_chunks)) continue;
      for (int b = 0; b < nb; b++) {
        const long at = (long)b * d->out_c + (long)y * d->out_y + (long)done * 16;
        if (looks_up) {
          look_up_row(out + at, out + at, x1 - done, table);
          continue;
        }
        __global float* row = (__global float*)out + at;
        if (sums_first)
          write_sums((const int16*)(ulong)row, x1 - done, scales + b * BLOCK_SCALES, 0, 0, (__global uchar*)row, 16, mode, end);
        if (posts) post_row(post, posts, banks, row, n, block + b, y, done, x1 - done, block + b == d->blocks - 1 ? d->lanes : 16, 1);
        if (end->noting == 2) keep_extremes(row, x1 - done, scales + b * BLOCK_SCALES);
      }
      done = part + run.count < row_chunks ? x1 : 0;
    }
    if (mode == 4)
      note_sums(scales, nb, block + nb == d->blocks ? d->lanes : 16, AT(int, banks, d->out) + block * 16, d->out_c);
    if (end->noting)
      note_blocks(scales, nb, block + nb == d->blocks ? d->lanes : 16, NUMBERS_OF(d, banks, largest),
                  NUMBERS_OF(d, banks, smallest));
  }
}
