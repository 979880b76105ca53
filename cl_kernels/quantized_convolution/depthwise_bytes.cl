// Depthwise convolution of bytes in blocks of 16 channels (b_fs_yx_fsv16), exact sums: four taps of a row at once.
//
// A ticket is a strip of rows of one channel block of one image. Its input, with the zero point around it, and its weights
// in the order of vpdpbusd are put into scratch first. Neighbouring outputs of stride 1 share what is loaded: the weights
// of the second one stand one tap further.
//
// inp, in_n, in_c, in_y, in_height, in_width   the input; bytes to the next image, block, row
// weights                    [block][ky][kx][16];  start, scale, bias: 16 numbers a block
// out, out_n, out_c, out_y   the result, pitches in elements of `itemsize` bytes;  res, res_n, res_c, res_y: bytes added
// by, plus                   as in micro_bytes.cl;  entries: as in conv_bytes.cl;  res, by, plus, entries may be CLGRAPH_NULL
// height, width, blocks, lanes   of the result;  strips, strip_rows: tickets of a block, rows of a ticket
// kernel_y, kernel_x, stride_y, stride_x, dilation_y, pad_top, pad_left, pad (four times) or zero_point
// mode, listed, last, first .. high   as in conv_bytes.cl
#include "bytes.clh"
#include "post_tile.clh"

// Pixels whose sums are written at once.
#define ROW_PART 16

// The weights of one block as [ky][group of 4 taps][0, 1][channel][tap], the second ones a tap further.
NOINLINE static void order_taps(__global const char* weights, __global char* to, __global uchar* row, const int kernel_y,
                                const int kernel_x) {
  const int groups = (kernel_x + 4) / 4;
  for (int i = 0; i < 4 * groups + 5; i++) *(__global loose_int4*)(row + i * 16) = 0;
  for (int ky = 0; ky < kernel_y; ky++) {
    for (int kx = 0; kx < kernel_x; kx++)
      *(__global loose_int4*)(row + (kx + 1) * 16) = *(__global const loose_int4*)(weights + (ky * kernel_x + kx) * 16);
    for (int g = 0; g < groups; g++, to += 128) {
      *(__global loose_int16*)to = taps_of(row + (4 * g + 1) * 16);
      *(__global loose_int16*)(to + 64) = taps_of(row + 4 * g * 16);
    }
  }
}

// The sums of four pixels from the one on whose window is at p; `groups` of 4 taps a row, of which `pair` neighbours share.
static inline void sum_taps(__global const uchar* p, __global const char* w, const int16 start, const int kernel_y,
                            const int groups, const int in_y, const int step, const int pair, int16* sums) {
  #pragma unroll
  for (int i = 0; i < 4; i++) sums[i] = start;
  for (int ky = 0; ky < kernel_y; ky++, p += in_y)
    for (int g = 0; g < groups; g++, w += 128) {
      const int16 a = *(__global const loose_int16*)w, b = *(__global const loose_int16*)(w + 64);
      __global const uchar* at = p + g * 64;
      if (pair) {
        const int16 t = taps_of(at), u = taps_of(at + 32);
        sums[0] = add_dots(sums[0], t, a);
        sums[1] = add_dots(sums[1], t, b);
        sums[2] = add_dots(sums[2], u, a);
        sums[3] = add_dots(sums[3], u, b);
      } else {
        #pragma unroll
        for (int i = 0; i < 4; i++) sums[i] = add_dots(sums[i], taps_of(at + i * step), a);
      }
    }
}

static void depthwise_bytes(__global const depthwise_bytes_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y0 = strip * d->strip_rows, y1 = min(y0 + d->strip_rows, d->height), width = d->width, mode = d->mode;
  const int pair = d->stride_x == 1 && d->kernel_x % 4, step = d->stride_x * 16;
  const int ordered = (d->kernel_x + 4) / 4, listed = d->listed, size = d->itemsize;
  const int rows = (y1 - y0 - 1) * d->stride_y + (d->kernel_y - 1) * d->dilation_y + 1;
  const int pitch = ((width + 3) / 4 * 4 - 1) * step + ordered * 64 + 64;
  __global uchar* floats = (__global uchar*)scratch;
  __global char* taps = scratch + (listed ? (width + 3) * 64 : 0);
  __global uchar* stage = (__global uchar*)taps + d->kernel_y * ordered * 128;
  order_taps(AT(const char, banks, d->weights) + (long)block * d->kernel_y * d->kernel_x * 16, taps, stage, d->kernel_y,
             d->kernel_x);
  __global const uchar* in = AT(const uchar, banks, d->inp) + (long)n * d->in_n + (long)block * d->in_c;
  const int4 pad = (int4)(d->zero_point == CLGRAPH_NULL ? d->pad : *AT(const uchar, banks, d->zero_point) * 0x01010101);
  for (int r = 0; r < rows; r++) {
    const int y = y0 * d->stride_y - d->pad_top + r, last = pitch / 16;
    const int count = y < 0 || y >= d->in_height ? 0 : min(d->in_width, last - d->pad_left);
    __global loose_int4* row = (__global loose_int4*)(stage + (long)r * pitch);
    __global const loose_int4* from = (__global const loose_int4*)(in + (long)y * d->in_y);
    int x = 0;
    for (; x < (count ? d->pad_left : 0); x++) row[x] = pad;
    for (int i = 0; i < count; i++, x++) row[x] = from[i];
    for (; x < last; x++) row[x] = pad;
  }
  int16 start = *(__global const int16*)(AT(const int, banks, d->start) + block * 16);
  if (d->zero_point != CLGRAPH_NULL) start *= (int16)(-(int)*AT(const uchar, banks, d->zero_point));
  __global const float* by = d->by == CLGRAPH_NULL ? 0 : AT(const float, banks, d->by) + block * 16;
  __global const float* plus = d->plus == CLGRAPH_NULL ? 0 : AT(const float, banks, d->plus) + block * 16;
  __global const float* scale = AT(const float, banks, d->scale) + block * 16;
  __global const float* bias = AT(const float, banks, d->bias) + block * 16;
  __global const uchar* res = 0;
  if (d->res != CLGRAPH_NULL) res = AT(const uchar, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
  __global uchar* out = AT(uchar, banks, d->out) + ((long)n * d->out_n + (long)block * d->out_c) * size;
  for (int y = y0; y < y1; y++) {
    __global const uchar* from = stage + (long)(y - y0) * d->stride_y * pitch;
    __global uchar *to = out + (long)y * d->out_y * size, *sums_to = listed ? floats : to;
    const int sum_bytes = mode == 0 || mode == 3 ? 64 : 16;
    for (int x = 0; x < width; x += ROW_PART) {
      int16 sums[ROW_PART];
      for (int i = 0; i < ROW_PART && x + i < width; i += 4)
        sum_taps(from + (long)(x + i) * step, (__global const char*)taps, start, d->kernel_y, ordered,
                 pitch * d->dilation_y, step, pair, sums + i);
      write_sums(sums, min(ROW_PART, width - x), scale, bias, by, plus, res ? res + (long)y * d->res_y + x * 16 : 0, 16,
                 sums_to + (long)x * sum_bytes, 16, mode, BYTE_END(d));
    }
    if (posts)
      post_row(post, posts, banks, (__global float*)sums_to, n, block, y, 0, width,
               block == d->blocks - 1 ? d->lanes : 16, 1);
    if (listed) quantize_row((__global const float*)floats, to, width, d->last, d->zero, d->low, d->high);
    if (d->entries != CLGRAPH_NULL) look_up_row(to, to, width, AT(const uchar, banks, d->entries));
  }
}
