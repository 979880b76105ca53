// Maxima or averages of windows over the last one to three axes of dense plain floats [planes][depth][height][width].
//
// A row of the result: the maxima or sums of the rows of its windows, with what nothing counts of around them; from those the
// same of as many neighbours as a window has columns. A ticket is a run of rows.
//
// inp, out                       dense;  count: elements of inp
// average                        1: sums, divided by the elements of the window that are inside the input or, where
//                                `padded` is 1, inside the input and its pads; 0: maxima
// in_depth ... width             of a plane of the input, of the result
// kernel_z ... pad_left, pad_back, pad_bottom, pad_right   the window; pads where elements count for `padded`
// reach                          elements from the first of a row's windows, or of its input behind the pad, to the last of either
// rows, ticket_rows              of the result: in all, of a ticket
//
// scratch: kernel_z * kernel_y ints and width + 16 floats, each rounded up to 16, then reach + 16 * stride_x + 32 floats.
// NaN wins. Error: none of a maximum; of an average (taps + 1) 2^-24 sum |x| / elements.
#include "tile.clh"

#define POOLED(a, v) (average ? (a) + (v) : select(a, v, ((v) > (a)) | ((v) != (v))))

// Elements i with low <= first + i * step < high, of n.
static int planes_within(const int first, const int step, const int n, const int low, const int high) {
  int count = 0;
  for (int i = 0; i < n; i++) count += first + i * step >= low && first + i * step < high;
  return count;
}

// Up to 16 floats that lie in front of `end`.
static float16 planes_end(__global const float* from, __global const float* end) {
  float part[16] = {0};
  for (int i = 0; i < 16 && from + i < end; i++) part[i] = from[i];
  return vload16(0, part);
}

static inline __attribute__((always_inline)) void planes_rows(__global const pool_planes_desc* d, __global char** banks,
                                                              __global char* scratch, const int first, const int last,
                                                              const int average) {
  const int taps_x = d->kernel_x, by = d->stride_x, apart = d->dilation_x, width = d->width, in_width = d->in_width;
  const int padded = d->padded;
  __global int* places = (__global int*)scratch;
  __global float* counts = (__global float*)(places + (d->kernel_z * d->kernel_y + 15) / 16 * 16);
  __global float* all = counts + (width + 31) / 16 * 16;
  __global const float* inp = AT(const float, banks, d->inp);
  __global const float* end = inp + d->count;
  __global float* out = AT(float, banks, d->out);
  const float16 none = (float16)(average ? 0.0f : -INFINITY);
  for (int i = 0; i < d->reach + 16 * by + 16; i += 16) STORE_LOOSE(all + i, none);
  // Lanes behind a row are divided, too: what scratch held may be a denormal number, which takes a hundred times as long.
  for (int x = width; x < (width + 15) / 16 * 16; x++) counts[x] = 1.0f;
  for (int x = 0; average && x < width; x++)
    counts[x] = planes_within(x * by - d->pad_left, apart, taps_x, padded ? -d->pad_left : 0,
                              in_width + (padded ? d->pad_right : 0));
  for (int r = first; r < last; r++) {
    const int slice = r / d->height, plane = slice / d->depth;
    const int y = (r - slice * d->height) * d->stride_y - d->pad_top, z = (slice - plane * d->depth) * d->stride_z - d->pad_front;
    int n = 0;
    for (int k = 0; k < d->kernel_z; k++)
      for (int j = 0; j < d->kernel_y; j++) {
        const int at = z + k * d->dilation_z, row = y + j * d->dilation_y;
        if (at >= 0 && at < d->in_depth && row >= 0 && row < d->in_height) places[n++] = (at * d->in_height + row) * in_width;
      }
    __global const float* in = inp + (long)plane * d->in_depth * d->in_height * in_width;
    for (int x = 0; x < in_width; x += 16) {
      float16 v = none;
      for (int i = 0; i < n; i++) {
        __global const float* from = in + places[i] + x;
        const float16 w = from + 16 <= end ? LOAD_LOOSE(from) : planes_end(from, end);
        v = POOLED(v, w);
      }
      STORE_LOOSE(all + d->pad_left + x, v);
    }
    STORE_LOOSE(all + d->pad_left + in_width, none);
    const float rows_count =
        average ? planes_within(y, d->dilation_y, d->kernel_y, padded ? -d->pad_top : 0,
                                d->in_height + (padded ? d->pad_bottom : 0)) *
                      planes_within(z, d->dilation_z, d->kernel_z, padded ? -d->pad_front : 0,
                                    d->in_depth + (padded ? d->pad_back : 0))
                : 1.0f;
    __global float* to = out + (long)r * width;
    for (int x = 0; x < width; x += 16) {
      __global const float* from = all + x * by;
      float16 v = LOAD_LOOSE(from), w = by == 2 ? LOAD_LOOSE(from + 16) : v;
      if (by > 2) {
        float part[16];
        for (int i = 0; i < 16; i++) part[i] = from[i * by];
        v = vload16(0, part);
      }
      for (int k = 1; k < taps_x; k++) {
        __global const float* next = from + k * apart;
        float16 u = LOAD_LOOSE(next);
        if (by > 2) {
          float part[16];
          for (int i = 0; i < 16; i++) part[i] = next[i * by];
          u = vload16(0, part);
        }
        v = POOLED(v, u);
        if (by == 2) {
          const float16 t = LOAD_LOOSE(next + 16);
          w = POOLED(w, t);
        }
      }
      if (by == 2) v = (float16)(v.even, w.even);
      if (average) v /= LOAD_LOOSE(counts + x) * rows_count;
      // What lies behind the row is one that this ticket computes next, or nobody's.
      if (to + x + 16 <= out + (long)last * width)
        STORE_LOOSE(to + x, v);
      else
        for (int i = 0; x + i < width; i++) to[x + i] = ((const float*)&v)[i];
    }
  }
}

NOINLINE static void planes_maxima(__global const pool_planes_desc* d, __global char** banks, __global char* scratch,
                                   const int first, const int last) {
  planes_rows(d, banks, scratch, first, last, 0);
}

NOINLINE static void planes_averages(__global const pool_planes_desc* d, __global char** banks, __global char* scratch,
                                     const int first, const int last) {
  planes_rows(d, banks, scratch, first, last, 1);
}

static void pool_planes(__global const pool_planes_desc* d, __global char** banks, __global char* scratch, const int ticket,
                        __global const post_step* post, const int posts) {
  const int first = ticket * d->ticket_rows, last = min(first + d->ticket_rows, d->rows);
  if (d->average)
    planes_averages(d, banks, scratch, first, last);
  else
    planes_maxima(d, banks, scratch, first, last);
}
#undef POOLED
