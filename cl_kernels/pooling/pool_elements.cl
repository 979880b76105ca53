// Maxima of windows over one to three axes of dense plain tensors [volumes][depth][height][width] of any element type.
//
// A row of the result: the maxima of the rows of its windows, side by side with nothing around them; from those the maxima of as
// many neighbours as a window has columns; of these each stride-th. A ticket is a run of rows.
//
// inp, out                       dense;  type (element_types.clh), itemsize: of elements
// domain                         what is compared: 0 floats, 1 doubles, 4 bytes
// in_depth, in_height, in_width, depth, height, width    of a volume of the input, of the result
// kernel_z, stride_z, dilation_z, kernel_y ... dilation_x, pad_front, pad_top, pad_left    the window
// reach                          elements of a row with what is around it
// rows, ticket_rows              of the result: in all, of a ticket
//
// scratch: a run that is converted, two rows of `reach` elements of 8 bytes. NaN wins. Exact.
#include "element_types.clh"

#define EACH(e) \
  for (int i = 0; i < n; i++) e;

#define WINDOWS(T, LEAST, BEST, as, type_as) \
  NOINLINE static void best_of_##T(__global const T* restrict x, __global T* restrict y, const int n) { \
    EACH(y[i] = BEST(x[i], y[i])) \
  } \
  NOINLINE static void picked_##T(__global const T* restrict x, __global T* restrict y, const int n, const int step) { \
    if (step == 1) EACH(y[i] = x[i]) \
    else if (step == 2) EACH(y[i] = x[2 * i]) \
    else EACH(y[i] = x[i * step]) \
  } \
  NOINLINE static void pooled_row_##T(__global const pool_elements_desc* d, __global const char* volume, const int z, \
                                      const int y, __global char* out, __global char* scratch) { \
    __global T* all = (__global T*)(scratch + RUN * 8); \
    __global T* wide = all + d->reach; \
    const int n = d->reach, columns = (d->width - 1) * d->stride_x + 1; \
    EACH(all[i] = LEAST) \
    for (int k = 0; k < d->kernel_z * d->kernel_y; k++) { \
      const int kz = k / d->kernel_y, row = y * d->stride_y - d->pad_top + (k - kz * d->kernel_y) * d->dilation_y; \
      const int plane = z * d->stride_z - d->pad_front + kz * d->dilation_z; \
      if (row < 0 || row >= d->in_height || plane < 0 || plane >= d->in_depth) continue; \
      __global const char* from = volume + ((long)plane * d->in_height + row) * d->in_width * d->itemsize; \
      for (int x0 = 0; x0 < d->in_width; x0 += RUN) { \
        const int count = min(RUN, d->in_width - x0); \
        best_of_##T(as(d->type, from + (long)x0 * d->itemsize, (__global T*)scratch, count), all + d->pad_left + x0, count); \
      } \
    } \
    picked_##T(all, wide, columns, 1); \
    for (int kx = 1; kx < d->kernel_x; kx++) best_of_##T(all + kx * d->dilation_x, wide, columns); \
    picked_##T(wide, all, d->width, d->stride_x); \
    type_as(d->type, all, out, d->width); \
  }
#define GREATER(v, all) ((v) > (all) || (v) != (v) ? (v) : (all))
#define AS_BYTES(type, from, room, n) ((__global const uchar*)(from))
#define AS_CHARS(type, from, room, n) ((__global const char*)(from))
#define BYTES_AS(type, from, to, n) copy_bytes((__global const uchar*)(from), (__global uchar*)(to), n)
static void copy_bytes(__global const uchar* restrict x, __global uchar* restrict y, const int n) { EACH(y[i] = x[i]) }
WINDOWS(float, -INFINITY, GREATER, as_floats, floats_as)
WINDOWS(uchar, 0, max, AS_BYTES, BYTES_AS)
WINDOWS(char, CHAR_MIN, max, AS_CHARS, BYTES_AS)
#ifdef cl_khr_fp64
WINDOWS(double, -INFINITY, GREATER, as_doubles, doubles_as)
#endif

static void pool_elements(__global const pool_elements_desc* d, __global char** banks, __global char* scratch,
                          const int ticket, __global const post_step* post, const int posts) {
  const int last = min((ticket + 1) * d->ticket_rows, d->rows);
  for (int r = ticket * d->ticket_rows; r < last; r++) {
    const int at = r / d->height, y = r - at * d->height, of = at / d->depth, z = at - of * d->depth;
    const long volume_bytes = (long)d->in_depth * d->in_height * d->in_width * d->itemsize;
    __global const char* volume = AT(const char, banks, d->inp) + of * volume_bytes;
    __global char* out = AT(char, banks, d->out) + (long)r * d->width * d->itemsize;
    if (d->domain == 0) pooled_row_float(d, volume, z, y, out, scratch);
#ifdef cl_khr_fp64
    if (d->domain == 1) pooled_row_double(d, volume, z, y, out, scratch);
#endif
    if (d->domain == 4 && d->type == TYPE_I8) pooled_row_char(d, volume, z, y, out, scratch);
    if (d->domain == 4 && d->type != TYPE_I8) pooled_row_uchar(d, volume, z, y, out, scratch);
  }
}
#undef EACH
#undef GREATER
