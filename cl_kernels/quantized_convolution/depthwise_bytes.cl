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

// The sums of `count` pixels (up to ROW_PART) of two rows, the second one's ROW_PART vectors further, from the pixel on whose
// window is at p: K by K taps, both strides STRIDE, everything unrolled. The rows share the taps of the input that they have
// in common.
#define SUM_ROWS(name, K, STRIDE)                                                                                       \
  NOINLINE static void name(__global const uchar* p, __global const char* w, const int16 start, const int in_y,         \
                            const int count, int16* sums) {                                                             \
    for (int x = 0; x < count; x += 4, p += 64 * STRIDE) {                                                              \
      int16 s[2][4] = {{start, start, start, start}, {start, start, start, start}};                                     \
      _Pragma("unroll") for (int y = 0; y < K + STRIDE; y++)                                                            \
        _Pragma("unroll") for (int g = 0; g < (K + 4) / 4; g++) {                                                       \
          __global const uchar* at = p + (long)y * in_y + g * 64;                                                       \
          int16 t[4];                                                                                                   \
          _Pragma("unroll") for (int i = 0; i < 4; i++)                                                                 \
            t[i] = STRIDE == 1 && i % 2 ? t[i - 1] : taps_of(at + i * 16 * STRIDE);                                     \
          _Pragma("unroll") for (int r = 0; r < 2; r++) {                                                               \
            const int ky = y - r * STRIDE;                                                                              \
            if (ky < 0 || ky >= K) continue;                                                                            \
            __global const char* taps = w + (ky * ((K + 4) / 4) + g) * 128;                                             \
            _Pragma("unroll") for (int i = 0; i < 4; i++) s[r][i] =                                                     \
                add_dots(s[r][i], t[i], *(__global const loose_int16*)(taps + (STRIDE == 1 && i % 2 ? 64 : 0)));        \
          }                                                                                                             \
        }                                                                                                               \
      _Pragma("unroll") for (int i = 0; i < 8; i++) sums[x + i / 4 * ROW_PART + i % 4] = s[i / 4][i % 4];               \
    }                                                                                                                   \
  }
SUM_ROWS(sum_3_1, 3, 1)
SUM_ROWS(sum_3_2, 3, 2)
SUM_ROWS(sum_5_1, 5, 1)
SUM_ROWS(sum_5_2, 5, 2)

static void depthwise_bytes(__global const depthwise_bytes_desc* d, __global char** banks, __global char* scratch,
                            const int ticket, __global const post_step* post, const int posts) {
  const int block = ticket % d->blocks, strip = ticket / d->blocks % d->strips, n = ticket / d->blocks / d->strips;
  const int y0 = strip * d->strip_rows, y1 = min(y0 + d->strip_rows, d->height), width = d->width, mode = d->mode;
  const int pair = d->stride_x == 1 && d->kernel_x % 4, step = d->stride_x * 16;
  const int ordered = (d->kernel_x + 4) / 4, listed = d->listed, size = d->itemsize;
  const int rows = (y1 - y0 - 1) * d->stride_y + (d->kernel_y - 1) * d->dilation_y + 1;
  const int pitch = ((width + 3) / 4 * 4 - 1) * step + ordered * 64 + 64;
  __global float* scales = (__global float*)scratch;
  __global uchar* floats = (__global uchar*)scratch + 128;
  __global char* taps = scratch + 128 + (listed ? 2 * (width + 3) * 64 : 0);
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
    int i = 0;
    for (; i + 4 <= count; i += 4) *(__global loose_int16*)(row + x + i) = *(__global const loose_int16*)(from + i);
    for (; i < count; i++) row[x + i] = from[i];
    x += count;
    for (; x < last; x++) row[x] = pad;
  }
  int16 start = *(__global const int16*)(AT(const int, banks, d->start) + block * 16);
  if (d->zero_point != CLGRAPH_NULL) start *= (int16)(-(int)*AT(const uchar, banks, d->zero_point));
  __global const float* by = d->by == CLGRAPH_NULL ? 0 : AT(const float, banks, d->by) + block * 16;
  __global const float* plus = d->plus == CLGRAPH_NULL ? 0 : AT(const float, banks, d->plus) + block * 16;
  write_scales(AT(const float, banks, d->scale) + block * 16, AT(const float, banks, d->bias) + block * 16, scales, 1, mode,
               BYTE_END(d));
  __global const uchar* res = 0;
  if (d->res != CLGRAPH_NULL) res = AT(const uchar, banks, d->res) + (long)n * d->res_n + (long)block * d->res_c;
  __global uchar* out = AT(uchar, banks, d->out) + ((long)n * d->out_n + (long)block * d->out_c) * size;
  const int usual = d->kernel_y == d->kernel_x && (d->kernel_x == 3 || d->kernel_x == 5) && d->stride_x < 3 &&
                    d->stride_y == d->stride_x && d->dilation_y == 1 ? d->kernel_x * 2 + d->stride_x : 0;
  const int sum_bytes = mode == 0 || mode == 3 ? 64 : 16, at_once = usual ? 2 : 1;
  for (int y = y0; y < y1; y += at_once)
    for (int x = 0; x < width; x += ROW_PART) {
      __global const uchar* from = stage + (long)(y - y0) * d->stride_y * pitch + (long)x * step;
      const int count = min(ROW_PART, width - x);
      int16 sums[2 * ROW_PART];
      if (usual == 7) sum_3_1(from, taps, start, pitch, count, sums);
      else if (usual == 8) sum_3_2(from, taps, start, pitch, count, sums);
      else if (usual == 11) sum_5_1(from, taps, start, pitch, count, sums);
      else if (usual == 12) sum_5_2(from, taps, start, pitch, count, sums);
      else
        for (int i = 0; i < count; i += 4)
          sum_taps(from + (long)i * step, taps, start, d->kernel_y, ordered, pitch * d->dilation_y, step, pair, sums + i);
      for (int r = 0; r < at_once && y + r < y1; r++) {
        __global uchar* to = (listed ? floats + (long)r * (width + 3) * 64 : out + (long)(y + r) * d->out_y * size);
        write_sums(sums + r * ROW_PART, count, scales, by, plus, res ? res + (long)(y + r) * d->res_y + x * 16 : 0, 16,
                   to + (long)x * sum_bytes, 16, mode, BYTE_END(d));
        if (x + count < width) continue;
        if (posts)
          post_row(post, posts, banks, (__global float*)to, n, block, y + r, 0, width,
                   block == d->blocks - 1 ? d->lanes : 16, 1);
        __global uchar* row = out + (long)(y + r) * d->out_y * size;
        if (listed) quantize_row((__global const float*)to, row, width, d->last, d->zero, d->low, d->high);
        if (d->entries != CLGRAPH_NULL) look_up_row(row, row, width, AT(const uchar, banks, d->entries));
      }
    }
}
