// Depthwise convolution of bytes in blocks of 16 channels (b_fs_yx_fsv16), exact sums.
//
// A ticket is a strip of rows of one channel block of one image. Its input, with the zero point around it, and its weights
// are put into scratch first, in the order of the products: of four taps of a row (depthwise_dots.clh) with VNNI, of two of a
// column (depthwise_words.clh) elsewhere.
//
// inp, in_n, in_c, in_y, in_height, in_width   the input; bytes to the next image, block, row
// weights                    [block][ky][kx][16];  start, scale, bias: 16 numbers a block
// out, out_n, out_c, out_y   the result, pitches in elements of `itemsize` bytes;  res, res_n, res_c, res_y: bytes added
// by, plus, by_after, plus_after   as in micro_bytes.cl;  entries, largest, smallest: as in conv_bytes.cl
// each of these, and res, may be CLGRAPH_NULL
// height, width, blocks, lanes   of the result;  strips, strip_rows: tickets of a block, rows of a ticket
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, pad_top, pad_left, pad (four times) or zero_point
// weight_shift               what is added to each weight
// mode, listed, last, steps, zeros, first .. high   as in conv_bytes.cl, as is out in mode 4
#include "depthwise_dots.clh"
#include "depthwise_words.clh"
#include "post_tile.clh"

static void depthwise_bytes(__global const depthwise_bytes_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y0 = strip * d->strip_rows, y1 = min(y0 + d->strip_rows, d->height), width = d->width, mode = d->mode;
  const int listed = d->listed, size = d->itemsize;
  const int rows = (y1 - y0 - 1) * d->stride_y + (d->kernel_y - 1) * d->dilation_y + 1;
  const int pitch = staged_pitch(width, d->stride_x, d->kernel_x);
  __global float* scales = (__global float*)(scratch + END_BYTES);
  __global uchar* floats = (__global uchar*)(scales + BLOCK_SCALES);
  __global char* taps = (__global char*)floats + (listed ? 2 * (width + 3) * 64 : 0);
  const int shift = d->weight_shift, ordered = ordered_bytes(d->kernel_y, d->kernel_x, d->dilation_y);
  __global uchar* stage = (__global uchar*)taps + (SHIFTS_APART && shift ? 2 : 1) * ordered;
  order_taps(AT(const char, banks, d->weights) + (long)block * d->kernel_y * d->kernel_x * 16, taps, stage, d->kernel_y,
             d->kernel_x, d->dilation_y, shift);
  if (SHIFTS_APART && shift) order_taps(0, taps + ordered, stage, d->kernel_y, d->kernel_x, d->dilation_y, shift);
  __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  const int zero = d->zero_point == CLGRAPH_NULL ? d->pad & 255 : *AT(const uchar, banks, d->zero_point);
  stage_rows(in, stage, y0 * d->stride_y - d->pad_top, rows, d->pad_left, pitch, d->in_y, d->in_height, d->in_width, zero);
  int16 start = *(__global const int16*)(AT(const int, banks, d->start) + block * 16);
  if (d->zero_point != CLGRAPH_NULL) start *= (int16)(-(int)*AT(const uchar, banks, d->zero_point));
  const int looks_up = d->entries != CLGRAPH_NULL;
  byte_table table;
  if (looks_up) table = table_of(AT(const uchar, banks, d->entries));
  const channel_numbers numbers = CHANNEL_NUMBERS(d, banks);
  __global const byte_end* end = END_WITH(d, banks, scratch);
  write_scales(numbers, scales, block, 1, mode, end);
  __global const uchar* res = 0;
  if (d->res != CLGRAPH_NULL) res = AT(const uchar, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
  __global uchar* out = AT(uchar, banks, d->out) + ((long)n * d->out_n + (long)block * d->out_c) * size;
  const int usual = d->kernel_y == d->kernel_x && (d->kernel_x == 3 || d->kernel_x == 5) && d->stride_x < 3 &&
                    d->stride_y == d->stride_x && d->dilation_y == 1 ? d->kernel_x * 2 + d->stride_x : 0;
  const int sum_bytes = mode == 0 || mode == 3 ? 64 : 16, at_once = usual ? 2 : 1;
  for (int y = y0; y < y1; y += at_once)
    for (int x = 0; x < width; x += ROW_PART) {
      const int count = min(ROW_PART, width - x);
      int16 sums[2 * ROW_PART];
      sum_windows(stage, taps, start, y - y0, x, count, pitch, usual, d->kernel_y, d->kernel_x, d->stride_y, d->stride_x,
                  d->dilation_y, sums);
      if (SHIFTS_APART && shift) {
        int16 more[2 * ROW_PART];
        sum_windows(stage, taps + ordered, (int16)(0), y - y0, x, count, pitch, usual, d->kernel_y, d->kernel_x, d->stride_y,
                    d->stride_x, d->dilation_y, more);
        for (int i = 0; i < count; i++) sums[i] += more[i];
        for (int i = ROW_PART; usual && i < ROW_PART + count; i++) sums[i] += more[i];
      }
      for (int r = 0; r < at_once && y + r < y1; r++) {
        __global uchar* to = (listed ? floats + (long)r * (width + 3) * 64 : out + (long)(y + r) * d->out_y * size);
        write_sums(sums + r * ROW_PART, count, scales, res ? res + (long)(y + r) * d->res_y + x * 16 : 0, 16,
                   to + (long)x * sum_bytes, 16, mode, end);
        if (x + count < width) continue;
        if (posts)
          post_row(post, posts, banks, (__global float*)to, n, block, y + r, 0, width,
                   block == d->blocks - 1 ? d->lanes : 16, 1);
        if (end->noting == 2) keep_extremes((__global const float*)to, width, scales);
        __global uchar* row = out + (long)(y + r) * d->out_y * size;
        if (listed) quantize_row((__global const float*)to, row, width, d->last, d->zero, d->low, d->high);
        if (looks_up) look_up_row(row, row, width, table);
      }
    }
  if (mode == 4)
    note_sums(scales, 1, block == d->blocks - 1 ? d->lanes : 16, AT(int, banks, d->out) + block * 16, d->out_c);
  if (end->noting)
    note_blocks(scales, 1, block == d->blocks - 1 ? d->lanes : 16, NUMBERS_OF(d, banks, largest),
                NUMBERS_OF(d, banks, smallest));
}
