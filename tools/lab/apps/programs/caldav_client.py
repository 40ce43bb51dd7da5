import sys

import caldav

url, password, *user = sys.argv[1:]
headers = {'X-Remote-User': user[0]} if user else {}
client = caldav.DAVClient(url + '/', username='me', password=password or None, headers=headers)
principal = client.principal()
calendar = principal.make_calendar(name='Work', cal_id='work')
event = '\r\n'.join(
    [
        'BEGIN:VCALENDAR',
        'VERSION:2.0',
        'PRODID:lab',
        'BEGIN:VEVENT',
        'UID:{0}',
        'DTSTAMP:20260101T000000Z',
        'DTSTART:20260102T{0}0000Z',
        'SUMMARY:Event {0}',
        'END:VEVENT',
        'END:VCALENDAR',
        '',
    ]
)
for hour in (10, 11):
    calendar.save_event(event.format(hour))
(found,) = [one for one in principal.calendars() if one.name == 'Work' or one.id == 'work']
by_address = found.multiget([one.url for one in found.events()])
names = sorted(str(one.icalendar_component['SUMMARY']) for one in by_address)
found.delete()
print(f'{", ".join(names)}; {len(principal.calendars())} calendars left')
