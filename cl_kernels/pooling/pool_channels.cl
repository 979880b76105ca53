// Maxima of windows over two axes of dense plain tensors of bytes [images][height][width][inner], clipped to the input. Exact.
//
// A ticket is a run of rows of the result: a pixel at a time, 64 bytes of it side by side.
//
// inp, out                      dense
// has_sign                      whether bytes have signs
// in_height, in_width, height, width    of the input, of the result;  inner: bytes of a pixel
// kernel_y ... dilation_x, pad_top, pad_left    the window
// rows, ticket_rows             of the result: in all, of a ticket
#include "pool_clip.clh"
#include "tile.clh"

typedef uchar16 __attribute__((aligned(1))) any_uchar16;
typedef char16 __attribute__((aligned(1))) any_char16;

// The maxima of `lines` rows of `taps` pixels, `line` and `step` bytes apart.
#define LOOSE(T, p) (*(__global any_##T##16*)(p))
#define READ(T, p) (*(__global const any_##T##16*)(p))
#define PIXEL(T, LEAST) \
  NOINLINE static void best_pixel_##T(__global const T* from, __global T* to, const int inner, const int lines, const int taps, \
                                      const long line, const int step) { \
    int c = 0; \
    for (; c + 64 <= inner; c += 64) { \
      T##16 p = LEAST, q = LEAST, r = LEAST, s = LEAST; \
      for (int i = 0; i < lines; i++) \
        for (int j = 0; j < taps; j++) { \
          __global const T* at = from + i * line + j * step + c; \
          const T##16 a = READ(T, at), b = READ(T, at + 16), e = READ(T, at + 32), f = READ(T, at + 48); \
          p = a > p ? a : p, q = b > q ? b : q, r = e > r ? e : r, s = f > s ? f : s; \
        } \
      LOOSE(T, to + c) = p, LOOSE(T, to + c + 16) = q; \
      LOOSE(T, to + c + 32) = r, LOOSE(T, to + c + 48) = s; \
    } \
    for (; c + 16 <= inner; c += 16) { \
      T##16 p = LEAST; \
      for (int i = 0; i < lines; i++) \
        for (int j = 0; j < taps; j++) { \
          const T##16 a = READ(T, from + i * line + j * step + c); \
          p = a > p ? a : p; \
        } \
      LOOSE(T, to + c) = p; \
    } \
    for (; c < inner; c++) { \
      T p = LEAST; \
      for (int i = 0; i < lines; i++) \
        for (int j = 0; j < taps; j++) p = max(from[i * line + j * step + c], p); \
      to[c] = p; \
    } \
  }
PIXEL(uchar, 0)
PIXEL(char, CHAR_MIN)
#undef LOOSE
#undef READ

static void pool_channels(__global const pool_channels_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), inner = d->inner, step = d->dilation_x * inner;
  const long row = (long)d->in_width * inner, line = d->dilation_y * row;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int image = r / d->height, at_y = (r - image * d->height) * d->stride_y - d->pad_top;
    const int2 ky = pool_clip(at_y, d->kernel_y, d->dilation_y, d->in_height);
    __global const char* from = AT(const char, banks, d->inp) +
                                ((long)image * d->in_height + at_y + ky.x * d->dilation_y) * row;
    __global char* to = AT(char, banks, d->out) + (long)r * d->width * inner;
    for (int x = 0; x < d->width; x++, to += inner) {
      const int at = x * d->stride_x - d->pad_left;
      const int2 kx = pool_clip(at, d->kernel_x, d->dilation_x, d->in_width);
      __global const char* first = from + (long)(at + kx.x * d->dilation_x) * inner;
      if (d->has_sign)
        best_pixel_char(first, to, inner, ky.y - ky.x, kx.y - kx.x, line, step);
      else
        best_pixel_uchar((__global const uchar*)first, (__global uchar*)to, inner, ky.y - ky.x, kx.y - kx.x, line, step);
    }
  }
}
