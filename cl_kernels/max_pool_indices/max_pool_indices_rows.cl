// The maximum of each window of x and where it stands in x, of equal ones the first, of NaN the first of those.
//
// x is [planes][in_height][in_width], y and the places [planes][height][width]. A ticket is a run of rows of y.
//
// inp, out, places     elements of a type; a place is a flat index in x, of 8 bytes
// rows                 rows of y in all
// kernel_y, kernel_x   elements of a window;  stride_y, stride_x; dilation_y, dilation_x; pad_top, pad_left
// by_column            1: columns are counted first, a place in a plane is x * in_height + y
// type, itemsize       element type (element_types.clh): floats, doubles, bytes;  ticket_rows: rows of a ticket
//
// scratch holds a row of places in a plane, ints, in whole vectors. A window of pads alone is minus infinity at its first element, clamped.
#include "element_types.clh"
#include "post_tile.clh"

// Take the elements of one place of the windows where they are greater. LLVM makes vectors of this.
#define TAKE(T, LOWEST) \
  NOINLINE static void take_##T(__global const T* restrict from, const int step, const int place, const int apart, \
                                __global T* restrict best, __global int* restrict at, const int n) { \
    for (int i = 0; i < n; i++) { \
      const T v = from[i * step], old = best[i]; \
      const int better = (v > old) | ((v != v) & (old == old)) | (at[i] < 0); \
      best[i] = better ? v : old; \
      at[i] = better ? place + i * apart : at[i]; \
    } \
  } \
  NOINLINE static void lowest_##T(__global T* restrict best, __global int* restrict at, const int n) { \
    for (int i = 0; i < n; i++) best[i] = LOWEST, at[i] = -1; \
  }
TAKE(float, -INFINITY)
TAKE(char, -128)
TAKE(uchar, 0)
#ifdef cl_khr_fp64
TAKE(double, -(double)INFINITY)
  #define TAKEN_DOUBLES(CALL) else CALL(double)
#else
  #define TAKEN_DOUBLES(CALL)
#endif
#define TAKEN(CALL) \
  if (type == TYPE_F32) CALL(float) \
  else if (type == TYPE_I8) CALL(char) \
  else if (type == TYPE_U8) CALL(uchar) \
  TAKEN_DOUBLES(CALL)

// A row of floats whose windows are one or two apart, sixteen at a time: their first elements are in row y0 of the plane at x, and
// all elements of the tensor lie from `begin` to `end`.
NOINLINE static void row_of_floats(__global const max_pool_indices_rows_desc* d, __global const float* x,
                                   __global const float* begin, __global const float* end, const int y0, const int along,
                                   const int down, __global float* best, __global int* at) {
  const int stride = d->stride_x, width = d->width, in_width = d->in_width;
  const int16 lane = (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  for (int first = 0; first < width; first += 16) {
    float16 most = -INFINITY;
    int16 place = -1;
    for (int ky = 0; ky < d->kernel_y; ky++) {
      const int y = y0 + ky * d->dilation_y;
      if (y < 0 || y >= d->in_height) continue;
      for (int kx = 0; kx < d->kernel_x; kx++) {
        const int left = first * stride + kx * d->dilation_x - d->pad_left;
        const int16 column = left + lane * stride, inside = column >= 0 && column < in_width;
        __global const float* from = x + (long)y * in_width + left;
        float16 v;
        if (from >= begin && from + 16 * stride <= end) {
          v = LOAD_LOOSE(from);
          if (stride == 2) v = (float16)(v.even, LOAD_LOOSE(from + 16).even);
        } else {
          float some[16];
          for (int l = 0; l < 16; l++) some[l] = left + l * stride >= 0 && left + l * stride < in_width ? from[l * stride] : 0.0f;
          v = vload16(0, some);
        }
        const int16 better = inside && (v > most || (v != v && most == most) || place < 0);
        most = select(most, v, better);
        place = select(place, y * down + column * along, better);
      }
    }
    const int lanes = min(16, width - first);
    store_lanes(best + first, most, lanes);
    *(__global int16*)(at + first) = place;
  }
}

static void max_pool_indices_rows(__global const max_pool_indices_rows_desc* d, __global char** banks, __global char* scratch,
                                  const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows), width = d->width, stride = d->stride_x;
  const int in_height = d->in_height, in_width = d->in_width;
  const int type = d->type, size = d->itemsize;
  const int along = d->by_column ? in_height : 1, down = d->by_column ? 1 : in_width;
  __global int* at = (__global int*)scratch;
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int plane = r / d->height, y0 = (r - plane * d->height) * d->stride_y - d->pad_top;
    const long base = (long)plane * in_height * in_width;
    __global const char* x = AT(const char, banks, d->inp) + base * size;
    __global char* best = AT(char, banks, d->out) + (long)r * width * size;
    __global long* places = AT(long, banks, d->places) + (long)r * width;
    const int whole = type == TYPE_F32 && stride <= 2;
    if (whole) {
      __global const float* begin = AT(const float, banks, d->inp);
      row_of_floats(d, (__global const float*)x, begin, begin + (long)d->rows / d->height * in_height * in_width, y0, along, down,
                    (__global float*)best, at);
    }
#define LOWEST_ROW(T) lowest_##T((__global T*)best, at, width);
    if (!whole) { TAKEN(LOWEST_ROW) }
    for (int ky = 0; !whole && ky < d->kernel_y; ky++) {
      const int y = y0 + ky * d->dilation_y;
      if (y < 0 || y >= in_height) continue;
      for (int kx = 0; kx < d->kernel_x; kx++) {
        // Windows `first` to `end` have their element kx inside.
        const int left = kx * d->dilation_x - d->pad_left;
        const int first = left < 0 ? (stride - 1 - left) / stride : 0;
        const int end = min(width, left < in_width ? (in_width - 1 - left) / stride + 1 : 0);
        const int from = left + first * stride;
        if (first >= end) continue;
#define TAKE_ROW(T) \
  take_##T((__global const T*)x + (long)y * in_width + from, stride, y * down + from * along, stride * along, \
           (__global T*)best + first, at + first, end - first);
        TAKEN(TAKE_ROW)
      }
    }
    for (int i = 0; i < width; i++) {
      const int outside = clamp(y0, 0, in_height - 1) * down + clamp(i * stride - d->pad_left, 0, in_width - 1) * along;
      places[i] = base + (at[i] < 0 ? outside : at[i]);
    }
  }
}
#undef TAKE
#undef TAKEN
#undef TAKEN_DOUBLES
